// The calling thread's CPU clock.
#pragma once

#include <time.h>

#include <cstdint>

namespace ompipe::schedule {

// Nanoseconds of CPU time that the calling thread has used (CLOCK_THREAD_CPUTIME_ID). Any thread.
inline uint64_t thread_cpu_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

}  // namespace ompipe::schedule
