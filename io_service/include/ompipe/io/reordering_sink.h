// Holds completions back and lets them out in an order that comes from a seed, as a device with many queues would
// report them.
#pragma once

#include <cstdint>
#include <vector>

#include "ompipe/arenas/mutex.h"
#include "ompipe/io/io_service.h"

namespace ompipe::io {

// For serial executors in tests: together with run_one() it separates "was read" from "is reported". Any thread may
// complete.
class ReorderingSink final : public CompletionSink {
 public:
  // `inner` outlives this sink.
  ReorderingSink(CompletionSink& inner, uint64_t seed) : inner_(inner), random_(seed) {}

  void complete(Completion completion) noexcept override;

  // Hands one of those held, any with the same probability, to the inner sink; false if none is held.
  bool deliver_one();
  size_t held() const;

 private:
  CompletionSink& inner_;
  mutable Mutex mutex_;
  uint64_t random_ OMPIPE_GUARDED_BY(mutex_);
  std::vector<Completion> held_ OMPIPE_GUARDED_BY(mutex_);
};

}  // namespace ompipe::io
