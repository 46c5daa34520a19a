#include "ompipe/io/posix_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "ompipe/io/limits.h"

namespace ompipe::io {
namespace {

struct FreeAligned {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// One aligned buffer a reading thread, made at its first unaligned direct read. Null if memory is short.
std::byte* bounce_buffer() {
  thread_local const std::unique_ptr<std::byte, FreeAligned> buffer(
      static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, kBounceBytes)));
  return buffer.get();
}

ssize_t pread_once(int descriptor, std::byte* out, uint64_t length, uint64_t offset) {
  const ssize_t got = pread(descriptor, out, std::min(length, kMaxCallBytes), static_cast<off_t>(offset));
  return got >= 0 ? got : -errno;
}

uint64_t misalignment(const std::byte* address) { return reinterpret_cast<uintptr_t>(address) % kDirectAlignment; }

}  // namespace

ssize_t PosixDevice::read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) {
  OMPIPE_CHECK(mode != ReadMode::mapped && file.descriptor() >= 0);
  Meter::Call call(meter_);
  const ssize_t got = mode == ReadMode::direct ? read_direct(file, offset, out)
                                               : pread_once(file.descriptor(), out.data(), out.size(), offset);
  if (got > 0) call.delivered(static_cast<uint64_t>(got));
  return got;
}

ssize_t PosixDevice::read_direct(const FileHandle& file, uint64_t offset, std::span<std::byte> out) {
  const int descriptor = file.direct_descriptor();
  if (descriptor < 0) return descriptor;
  const uint64_t skip = offset % kDirectAlignment;
  const bool congruent = misalignment(out.data()) == skip;
  if (congruent && skip == 0 && out.size() >= kDirectAlignment) {
    return pread_once(descriptor, out.data(), out.size() - out.size() % kDirectAlignment, offset);
  }
  std::byte* const bounce = bounce_buffer();
  if (bounce == nullptr) return -ENOMEM;
  // Where offset and address agree, one block takes the read to where it can go on without copies.
  const uint64_t window = congruent ? kDirectAlignment : kBounceBytes;
  const uint64_t wanted = std::min<uint64_t>(out.size(), window - skip);
  const uint64_t blocks = (skip + wanted + kDirectAlignment - 1) / kDirectAlignment;
  const ssize_t got = pread_once(descriptor, bounce, blocks * kDirectAlignment, offset - skip);
  if (got < 0) return got;
  if (static_cast<uint64_t>(got) <= skip) return 0;
  const uint64_t usable = std::min<uint64_t>(wanted, static_cast<uint64_t>(got) - skip);
  std::memcpy(out.data(), bounce + skip, usable);
  meter_.add_copied(usable);
  return static_cast<ssize_t>(usable);
}

MapOutcome PosixDevice::map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) {
  Meter::Call call(meter_);
  auto mapped = map_range(file, offset, length);
  if (!mapped) return {.error = mapped.error().errno_value != 0 ? mapped.error().errno_value : EINVAL};
  return {.error = 0, .mapped = std::move(*mapped)};
}

int PosixDevice::populate(const FileHandle&, uint64_t, std::span<const std::byte> part) {
  if (part.empty()) return 0;
  Meter::Call call(meter_);
  const uint64_t before = misalignment(part.data());
  // The kernel takes any mapping's address; it only reads through it.
  auto* const first_page = const_cast<std::byte*>(part.data() - before);
  if (madvise(first_page, part.size() + before, MADV_POPULATE_READ) != 0) return errno;
  call.delivered(part.size(), /*mapped=*/true);
  return 0;
}

}  // namespace ompipe::io
