// A device that wraps another and makes it fail as real ones do, from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "ompipe/arenas/mutex.h"
#include "ompipe/io/device.h"

namespace ompipe::io {

// Probabilities of one call, each in [0, 1]; what is left over succeeds.
struct FaultRates {
  double short_read = 0;   // delivers between 1 byte and one less than was asked for
  double interrupted = 0;  // EINTR
  double io_error = 0;     // EIO
  double early_end = 0;    // 0 bytes; for a mapping EFAULT, as of a file that was truncated
  double delay = 0;        // takes up to 50 us longer, so that later reads overtake
};

// What happens to the n-th call at an offset of a file depends on the seed, the file's path, the offset and n, never on
// timing. So a retry may succeed, and the same seed gives the same faults whatever the threads do.
class FaultyDevice final : public Device {
 public:
  // `inner` outlives this device.
  FaultyDevice(Device& inner, const FaultRates& rates, uint64_t seed) : inner_(inner), rates_(rates), seed_(seed) {}

  ssize_t read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) override;
  MapOutcome map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) override;
  int populate(const FileHandle& file, uint64_t offset, std::span<const std::byte> part) override;
  DeviceCounts counts() const override { return inner_.counts(); }

 private:
  enum class Fault { none, short_read, interrupted, io_error, early_end };
  struct Draw {
    Fault fault;
    uint64_t random;  // for the fault's own choices
  };
  Draw draw(const FileHandle& file, uint64_t offset);

  Device& inner_;
  const FaultRates rates_;
  const uint64_t seed_;
  Mutex mutex_;
  std::map<std::pair<const FileHandle*, uint64_t>, uint64_t> attempts_ OMPIPE_GUARDED_BY(mutex_);
};

}  // namespace ompipe::io
