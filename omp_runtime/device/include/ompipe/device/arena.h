// A device's memory as an arena: allocations that count in a budget and can't be reached by the CPU.
#pragma once

#include <cstdint>
#include <utility>

#include "ompipe/arenas/budget.h"
#include "ompipe/device/backend.h"

namespace ompipe::device {

class Arena;

// Movable owner of bytes on a device, which count as live in Domain::device until it is reset or destroyed. Its arena
// outlives it, and no command that names its bytes is unfinished when it goes.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory() { reset(); }

  explicit operator bool() const { return arena_ != nullptr; }
  uint64_t bytes() const { return bytes_; }  // as rounded
  Address at(uint64_t offset = 0) const { return address_ + offset; }
  void reset();

 private:
  friend class Arena;
  Memory(Arena& arena, Address address, uint64_t bytes) : arena_(&arena), address_(address), bytes_(bytes) {}
  Arena* arena_ = nullptr;
  Address address_ = Address::none;
  uint64_t bytes_ = 0;
};

// Any thread. Outlived by budget and backend.
class Arena {
 public:
  // Without a backend it counts and has no memory: for predictions.
  Arena(arenas::Budget& budget, Backend* backend) : budget_(budget), backend_(backend) {}

  // What a request counts as: whole pages of 4 KiB, one at least.
  static uint64_t rounded_bytes(uint64_t bytes);
  // Takes rounded_bytes(bytes) of Domain::device out of `reservation`, which must have them left. Errors: those of the
  // backend; the bytes are left in the reservation then.
  Result<Memory> allocate(arenas::Reservation& reservation, uint64_t bytes);

 private:
  friend class Memory;
  void give_back(Address address, uint64_t bytes);

  arenas::Budget& budget_;
  Backend* const backend_;
};

}  // namespace ompipe::device
