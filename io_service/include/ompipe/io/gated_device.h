// A device that lets a test decide when each read may complete: order is proven by gates, never by sleeping.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <vector>

#include "ompipe/arenas/mutex.h"
#include "ompipe/io/device.h"

namespace ompipe::io {

// A device call that has begun.
struct StartedRead {
  const FileHandle* file = nullptr;
  uint64_t offset = 0;
  uint64_t length = 0;
};

// Every read and map waits, on the thread that called it, until the test opens its gate; then the inner device does it.
// `populate` passes. Reads of `inner` continue after short ones at a later offset, which is a gate of its own unless
// the opened range covers it. Before the I/O service is closed every gate must be open, or its threads wait for ever.
class GatedDevice final : public Device {
 public:
  // `inner` outlives this device.
  explicit GatedDevice(Device& inner) : inner_(inner) {}

  ssize_t read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) override;
  MapOutcome map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) override;
  int populate(const FileHandle& file, uint64_t offset, std::span<const std::byte> part) override {
    return inner_.populate(file, offset, part);
  }
  DeviceCounts counts() const override { return inner_.counts(); }

  // Opens the gates of all reads, waiting and future, that begin in [offset, offset + length) of the file.
  void open(const FileHandle& file, uint64_t offset, uint64_t length = 1);
  // Opens the gate of the read that has waited longest, and waits for one first if there is none.
  void open_next();
  // All gates are open from now on.
  void open_all();
  // All gates are closed again, for reads that begin from now on.
  void close_all();

  // Block until `count` reads have begun, counted from the device's beginning, or until one that begins at this offset
  // has.
  void wait_started(size_t count);
  void wait_started(const FileHandle& file, uint64_t offset);

  // The reads that have begun, in the order in which they reached the device; and how many now wait at a gate.
  std::vector<StartedRead> started();
  size_t waiting();

 private:
  struct Range {
    const FileHandle* file;
    uint64_t offset, length;
    bool covers(const StartedRead& read) const;
  };
  void pass(const FileHandle& file, uint64_t offset, uint64_t length);

  Device& inner_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<StartedRead> started_ OMPIPE_GUARDED_BY(mutex_);
  std::vector<size_t> waiting_ OMPIPE_GUARDED_BY(mutex_);  // indices into started_ of closed gates, oldest first
  std::vector<Range> opened_ OMPIPE_GUARDED_BY(mutex_);
  bool all_open_ OMPIPE_GUARDED_BY(mutex_) = false;
};

}  // namespace ompipe::io
