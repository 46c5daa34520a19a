#include "ompipe/io/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "ompipe/io/payload.h"

namespace ompipe::io {
namespace {

// mincore fills one byte a page; a window of 256 MiB needs 64 KiB of them.
constexpr uint64_t kWindowBytes = uint64_t{256} << 20;
constexpr int kDropAttempts = 3;

Error cache_error(const FileHandle& file, std::string reason, int errno_value) {
  return Error{.phase = "page cache",
               .subject = "",
               .reason = std::move(reason),
               .file = file.path(),
               .errno_value = errno_value};
}

}  // namespace

Result<double> resident_fraction(const FileHandle& file, uint64_t offset, uint64_t length) {
  if (const Status range = file.check_range(offset, length); !range) return range.error();
  if (length == 0) return 1.0;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = offset - offset % page, last = offset + length;
  std::vector<unsigned char> present(std::min(kWindowBytes, last - first) / page + 1);
  uint64_t pages = 0, resident = 0;
  for (uint64_t begin = first; begin < last; begin += kWindowBytes) {
    const uint64_t bytes = std::min(kWindowBytes, last - begin);
    void* base = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), static_cast<off_t>(begin));
    if (base == MAP_FAILED) return cache_error(file, "cannot be mapped", errno);
    const int failed = mincore(base, bytes, present.data()) != 0 ? errno : 0;
    munmap(base, bytes);
    if (failed != 0) return cache_error(file, "mincore failed", failed);
    const uint64_t count = (bytes + page - 1) / page;
    pages += count;
    resident += static_cast<uint64_t>(std::count_if(present.begin(), present.begin() + static_cast<ptrdiff_t>(count),
                                                    [](unsigned char byte) { return (byte & 1) != 0; }));
  }
  return static_cast<double>(resident) / static_cast<double>(pages);
}

Status drop_cached_pages(const FileHandle& file) {
  if (file.size_bytes() == 0) return ok_status();
  if (fsync(file.descriptor()) != 0) return cache_error(file, "cannot be flushed", errno);
  double left = 1;
  for (int attempt = 0; attempt < kDropAttempts && left > 0; ++attempt) {
    if (const int error = posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
      return cache_error(file, "the pages cannot be dropped", error);
    }
    const auto fraction = resident_fraction(file, 0, file.size_bytes());
    if (!fraction) return fraction.error();
    left = *fraction;
  }
  if (left == 0) return ok_status();
  return cache_error(file, "share of its pages that stayed in the page cache: " + std::to_string(left) + ", expected 0",
                     0);
}

}  // namespace ompipe::io
