// The handle of one allocation: whoever holds it owns the bytes; it returns them to the arena they came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ompipe/arenas/budget.h"

namespace ompipe::arenas {

// What an allocation returns to. Any thread.
class AllocationOrigin {
 public:
  virtual void give_back(std::byte* data, uint64_t bytes) = 0;

 protected:
  ~AllocationOrigin() = default;
};

// Movable owner of `bytes()` bytes, which count as live in `domain()` until it is reset or destroyed, on whichever
// thread that happens. Its arena must outlive it. Empty: data() is null.
class Allocation {
 public:
  Allocation() = default;
  Allocation(AllocationOrigin& origin, Domain domain, std::byte* data, uint64_t bytes)
      : origin_(&origin), data_(data), bytes_(bytes), domain_(domain) {}
  Allocation(Allocation&& other) noexcept { *this = std::move(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    if (this == &other) return *this;
    reset();
    origin_ = std::exchange(other.origin_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    domain_ = other.domain_;
    return *this;
  }
  ~Allocation() { reset(); }

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }  // as rounded by the arena: what is counted, all of it usable
  Domain domain() const { return domain_; }
  explicit operator bool() const { return data_ != nullptr; }
  void reset() {
    if (origin_) std::exchange(origin_, nullptr)->give_back(std::exchange(data_, nullptr), std::exchange(bytes_, 0));
  }

 private:
  AllocationOrigin* origin_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  Domain domain_ = Domain::preparation;
};

}  // namespace ompipe::arenas
