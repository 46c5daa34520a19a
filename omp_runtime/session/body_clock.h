// When a body ran, on which thread, and how much CPU time it took, its helpers' share of its tiles included.
#pragma once

#include <cstdint>

#include "ompipe/schedule/scheduler.h"
#include "ompipe/session/observer.h"

namespace ompipe::session {

struct BodyTimes {
  uint64_t start_ns = 0, end_ns = 0, cpu_ns = 0;
  int32_t lane = 0;
};

// From its construction on, on the body's thread.
class BodyClock {
 public:
  explicit BodyClock(const schedule::Worker& worker) : worker_(worker) {}
  BodyTimes stop() const {
    return {start_ns_, now_ns(), thread_cpu_ns() - start_cpu_ns_ + worker_.helpers_cpu_ns(), worker_.index()};
  }

 private:
  const schedule::Worker& worker_;
  const uint64_t start_ns_ = now_ns(), start_cpu_ns_ = thread_cpu_ns();
};

}  // namespace ompipe::session
