// The bytes of one graph output: filled by one frame, run after run, and lent to the caller with each result.
#pragma once

#include <atomic>
#include <memory>

#include "home_process.h"
#include "ompipe/arenas/allocation.h"
#include "ompipe/exec/owner.h"

namespace ompipe::session {

// Belongs to a frame, to a caller who holds a result, or to both; whoever leaves last gives the bytes back. The frame's
// side is used by one thread at a time, results are let go on any. A forked child leaves everything alone.
class OutputMemory final : public exec::Counted {
 public:
  explicit OutputMemory(arenas::Allocation allocation) : allocation_(std::move(allocation)) {}

  std::byte* data() const { return allocation_.data(); }
  uint64_t bytes() const { return allocation_.bytes(); }
  // Nobody holds a result that lies here, and what was done with the last one is over.
  bool free() const { return (sides_.load(std::memory_order_acquire) & kLent) == 0; }
  // The owner of a result. `runtime` lives as long as it: the bytes go back to its arena. Must be free.
  exec::Owner lend(std::shared_ptr<void> runtime) {
    runtime_ = std::move(runtime);
    sides_.fetch_or(kLent, std::memory_order_relaxed);
    return exec::Owner(this);
  }
  // The frame's side leaves; `this` may be gone.
  void drop() { leave(kFrame); }
  ~OutputMemory() = default;  // by whichever side leaves last; nobody else

 private:
  static constexpr uint8_t kFrame = 1, kLent = 2;

  void unreferenced() noexcept override {
    if (home_.left()) return;
    // Kept until the bytes are back; from the next line on the frame may lend anew.
    const std::shared_ptr<void> runtime = std::move(runtime_);
    leave(kLent);
  }
  void leave(uint8_t side) {
    if (sides_.fetch_and(uint8_t(~side), std::memory_order_acq_rel) == side)
      std::unique_ptr<OutputMemory>(this).reset();
  }

  const HomeProcess home_;
  std::atomic<uint8_t> sides_{kFrame};
  arenas::Allocation allocation_;
  std::shared_ptr<void> runtime_;  // while it is lent: set before, taken by the last who held the result
};

}  // namespace ompipe::session
