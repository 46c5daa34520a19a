#include "ompipe/arenas/window.h"

#include "ompipe/arenas/budget.h"
#include "pages.h"

namespace ompipe::arenas {

Result<Window> Window::open(uint64_t bytes) {
  Window window;
  window.bytes_ = round_up(bytes, kPageBytes);
  Result<std::byte*> base = map_pages(window.bytes_, kPageBytes);
  if (!base.ok()) return base.error();
  window.base_ = *base;
  advise_huge(window.base_, window.bytes_, false);
  return Result<Window>(std::move(window));
}

Window& Window::operator=(Window&& other) noexcept {
  if (this == &other) return *this;
  if (base_) unmap_pages(base_, bytes_);
  base_ = std::exchange(other.base_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Window::~Window() {
  if (base_) unmap_pages(base_, bytes_);
}

}  // namespace ompipe::arenas
