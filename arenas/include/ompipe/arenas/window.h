// Addresses for a whole payload, of which only the pieces that are written ever have memory: rows of a table at their
// own places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ompipe/arenas/error.h"

namespace ompipe::arenas {

// Movable owner of a range of addresses; destroying it gives range and memory back. Its memory is counted by whoever
// reserves for what is written to it. One thread at a time, but for the bytes.
class Window {
 public:
  Window() = default;
  // `bytes` of addresses, page-aligned. Errors: environment, when the system has no address space.
  static Result<Window> open(uint64_t bytes);
  Window(Window&& other) noexcept { *this = std::move(other); }
  Window& operator=(Window&& other) noexcept;
  ~Window();

  std::byte* data() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace ompipe::arenas
