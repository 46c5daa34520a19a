// Counts what device calls deliver, transfer and take.
#pragma once

#include <atomic>
#include <cstdint>

#include "ompipe/io/device.h"

namespace ompipe::io {

// Relaxed counters; any thread.
class Meter {
 public:
  // Whether calls can reach storage: asking how much they transferred takes two system calls (4 us on a virtual
  // machine).
  explicit Meter(bool has_storage) : has_storage_(has_storage) {}

  DeviceCounts counts() const;
  void add_copied(uint64_t bytes) { copied_.fetch_add(bytes, std::memory_order_relaxed); }

  // One device call, from construction to destruction, on one thread. Physical bytes are the thread's ru_inblock, which
  // the kernel counts where it submits the block I/O, read-ahead included.
  class Call {
   public:
    explicit Call(Meter& meter);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    void delivered(uint64_t bytes, bool mapped = false);

   private:
    Meter& meter_;
    const int64_t start_ns_;
    const uint64_t start_blocks_;
  };

 private:
  const bool has_storage_;
  std::atomic<uint64_t> calls_{0}, logical_{0}, physical_{0}, copied_{0}, mapped_{0}, wall_ns_{0};
};

// Nanoseconds of CLOCK_MONOTONIC, and of the calling thread's CPU clock.
int64_t monotonic_ns();
int64_t thread_cpu_ns();

}  // namespace ompipe::io
