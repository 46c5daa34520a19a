// The device of real files: pread, O_DIRECT pread, and populated mappings.
#pragma once

#include "ompipe/io/device.h"
#include "ompipe/io/meter.h"

namespace ompipe::io {

// Stateless but for its counts. A direct read whose offset, length or address isn't aligned goes through a buffer of
// kBounceBytes that each reading thread owns until it ends; where destination and offset are congruent modulo
// kDirectAlignment only the first and the last partial block do. `populate` needs MADV_POPULATE_READ (Linux 5.14), else
// EINVAL.
class PosixDevice final : public Device {
 public:
  ssize_t read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) override;
  MapOutcome map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) override;
  int populate(const FileHandle& file, uint64_t offset, std::span<const std::byte> part) override;
  DeviceCounts counts() const override { return meter_.counts(); }

 private:
  ssize_t read_direct(const FileHandle& file, uint64_t offset, std::span<std::byte> out);
  Meter meter_{/*has_storage=*/true};
};

}  // namespace ompipe::io
