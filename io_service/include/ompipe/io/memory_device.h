// A device whose files are bytes in memory: the fastest possible disk, for tests and benchmarks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ompipe/arenas/mutex.h"
#include "ompipe/io/device.h"
#include "ompipe/io/meter.h"

namespace ompipe::io {

class MemoryDevice final : public Device {
 public:
  // A new file with these bytes. The handle keeps its name and size; the device keeps the bytes until it and all
  // mappings are gone.
  std::shared_ptr<const FileHandle> add(const std::string& name, std::vector<std::byte> bytes);

  // Every mode reads with memcpy; a mapping is a pointer into the file's bytes. EBADF for a file of another device.
  ssize_t read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) override;
  MapOutcome map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) override;
  int populate(const FileHandle& file, uint64_t offset, std::span<const std::byte> part) override;
  DeviceCounts counts() const override { return meter_.counts(); }

 private:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  struct Entry {
    std::shared_ptr<const FileHandle> handle;  // keeps the key's address from being used again
    Bytes bytes;
  };
  Bytes find(const FileHandle& file);

  Mutex mutex_;
  std::map<const FileHandle*, Entry> files_ OMPIPE_GUARDED_BY(mutex_);
  Meter meter_{/*has_storage=*/false};
};

}  // namespace ompipe::io
