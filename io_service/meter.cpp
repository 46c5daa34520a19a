#include "ompipe/io/meter.h"

#include <sys/resource.h>
#include <time.h>

namespace ompipe::io {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// In units of 512 bytes, of this thread.
uint64_t blocks_read() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_inblock);
}

}  // namespace

int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
int64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

DeviceCounts Meter::counts() const {
  return {.calls = calls_.load(std::memory_order_relaxed),
          .logical_bytes = logical_.load(std::memory_order_relaxed),
          .physical_bytes = physical_.load(std::memory_order_relaxed),
          .copied_bytes = copied_.load(std::memory_order_relaxed),
          .mapped_bytes = mapped_.load(std::memory_order_relaxed),
          .wall_ns = wall_ns_.load(std::memory_order_relaxed)};
}

Meter::Call::Call(Meter& meter)
    : meter_(meter), start_ns_(monotonic_ns()), start_blocks_(meter.has_storage_ ? blocks_read() : 0) {}

Meter::Call::~Call() {
  meter_.calls_.fetch_add(1, std::memory_order_relaxed);
  meter_.wall_ns_.fetch_add(static_cast<uint64_t>(monotonic_ns() - start_ns_), std::memory_order_relaxed);
  if (!meter_.has_storage_) return;
  meter_.physical_.fetch_add(512 * (blocks_read() - start_blocks_), std::memory_order_relaxed);
}

void Meter::Call::delivered(uint64_t bytes, bool mapped) {
  meter_.logical_.fetch_add(bytes, std::memory_order_relaxed);
  if (mapped) meter_.mapped_.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace ompipe::io
