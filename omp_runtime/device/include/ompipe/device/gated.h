// A device whose batches wait until a test lets each begin, or fail: order is proven by gates, never by time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>

#include "ompipe/arenas/mutex.h"
#include "ompipe/device/backend.h"

namespace ompipe::device {

// Every batch is held until the test opens its gate; then the inner backend gets it. `inner` outlives this one. Before
// the runtime is closed every gate must be open. Functions of the test's may be called from any thread.
class GatedBackend final : public Backend {
 public:
  explicit GatedBackend(Backend& inner) : inner_(inner) {}

  const Description& describe() const override { return inner_.describe(); }
  bool computes(const kernels::PackedLayout& layout) const override { return inner_.computes(layout); }
  bool packs(const kernels::PackedLayout& layout) const override { return inner_.packs(layout); }
  uint64_t workspace_bytes(const kernels::PackedLayout& layout, int64_t m) const override {
    return inner_.workspace_bytes(layout, m);
  }
  Result<Address> allocate(uint64_t bytes) override { return inner_.allocate(bytes); }
  void free(Address address, uint64_t bytes) override { inner_.free(address, bytes); }
  Status open(EventSink& sink) override;
  bool submit(Batch&& batch) override;
  void close() override { inner_.close(); }

  // Waits until a batch is held, if none is. The commands of the oldest one.
  std::vector<Command> wait_held();
  size_t held();
  // Lets the oldest held batch begin, or end with this error without having begun; waits for one first.
  void open_next();
  void fail_next(const Error& error);
  // All gates are open from now on.
  void open_all();

 private:
  Batch take() OMPIPE_REQUIRES(mutex_);

  Backend& inner_;
  EventSink* sink_ = nullptr;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> held_ OMPIPE_GUARDED_BY(mutex_);
  bool all_open_ OMPIPE_GUARDED_BY(mutex_) = false;
};

}  // namespace ompipe::device
