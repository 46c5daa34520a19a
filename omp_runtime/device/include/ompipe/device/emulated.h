// An emulated accelerator: memory of its own, one thread that works its queue off, transfers that take their time.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <thread>

#include "ompipe/arenas/mutex.h"
#include "ompipe/device/backend.h"

namespace ompipe::device {

struct EmulatedOptions {
  // Of uploads and readbacks: a transfer of n bytes ends latency_ns + n / bandwidth after it began, or when its copy
  // is done, if that is later. 0 bytes a second: no limit, the copy alone counts.
  uint64_t bytes_per_second = 0;
  uint64_t latency_ns = 0;
  uint64_t memory_bytes = UINT64_MAX;
  int batches = 8;    // unfinished at most
  bool packs = true;  // whether it has a pack kernel
  int ordinal = 0;    // in its id: "emulated:0"
};

// Multiplies and packs with the CPU's own kernels, on its thread, so that results have the CPU's bits; its speed is
// that of one core, and it takes that core from the others. What it emulates is everything else: memory that has to be
// copied to, a queue, asynchronous ends, the time of transfers.
class EmulatedBackend final : public Backend {
 public:
  explicit EmulatedBackend(const EmulatedOptions& options);
  ~EmulatedBackend() override;

  const Description& describe() const override { return description_; }
  bool computes(const kernels::PackedLayout& layout) const override;
  bool packs(const kernels::PackedLayout& layout) const override;
  uint64_t workspace_bytes(const kernels::PackedLayout& layout, int64_t m) const override;
  Result<Address> allocate(uint64_t bytes) override;
  void free(Address address, uint64_t bytes) override;
  Status open(EventSink& sink) override;
  bool submit(Batch&& batch) override;
  void close() override;

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };

  void run();
  void wait_until(uint64_t end_ns);
  void execute(const Upload& upload);
  void execute(const Readback& readback);
  void execute(const Pack& pack);
  void execute(const Product& product);
  void transfer(std::byte* to, const std::byte* from, uint64_t bytes);

  const EmulatedOptions options_;
  const Description description_;
  Mutex memory_mutex_;
  std::map<uint64_t, std::unique_ptr<std::byte[], Free>> blocks_ OMPIPE_GUARDED_BY(memory_mutex_);
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> queue_ OMPIPE_GUARDED_BY(mutex_);
  int unfinished_ OMPIPE_GUARDED_BY(mutex_) = 0;
  bool closing_ OMPIPE_GUARDED_BY(mutex_) = false;
  EventSink* sink_ = nullptr;  // while open
  std::thread thread_;
};

}  // namespace ompipe::device
