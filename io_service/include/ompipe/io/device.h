// The seam between the I/O service and what holds the bytes; implemented by POSIX files, by memory, and by wrappers
// that fail or wait.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ompipe/io/file_handle.h"
#include "ompipe/io/payload.h"

namespace ompipe::io {

enum class ReadMode : uint8_t {
  buffered,  // pread through the page cache
  direct,    // O_DIRECT: past the page cache, 0.02 s of CPU a GiB instead of 0.3 to 0.9
  mapped,    // mmap, populated before it is reported
};

// What a device has done since it was made. `wall_ns` is the sum over calls, so it may exceed the elapsed time.
struct DeviceCounts {
  uint64_t calls = 0;
  uint64_t logical_bytes = 0;  // delivered to readers
  uint64_t physical_bytes =
      0;  // that storage transferred for it: cached pages are not in it, read-ahead and alignment are
  uint64_t copied_bytes = 0;  // through a bounce buffer
  uint64_t mapped_bytes = 0;  // of logical_bytes, those delivered as mappings
  uint64_t wall_ns = 0;
};

// Either `error` (an errno) or bytes.
struct MapOutcome {
  int error = 0;
  MappedBytes mapped = {};
};

// All functions may be called from several threads at once; counts are exact when no call is under way.
class Device {
 public:
  virtual ~Device() = default;

  // Reads at most out.size() bytes from `offset` on. Returns the number read, which may be smaller (0 only at the end
  // of the file or for an empty span), or -errno. A mode of `mapped` is the programmer's error.
  virtual ssize_t read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) = 0;

  // Maps a range without touching it. The range lies in the file.
  virtual MapOutcome map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) = 0;

  // Makes the part of a mapping that shows the file from `offset` on present in memory. Returns 0 or an errno (EFAULT:
  // the file is shorter now).
  virtual int populate(const FileHandle& file, uint64_t offset, std::span<const std::byte> part) = 0;

  virtual DeviceCounts counts() const = 0;
};

}  // namespace ompipe::io
