#include "pages.h"

#include <sys/mman.h>

#include <cerrno>

#if defined(__SANITIZE_ADDRESS__)
#define OMPIPE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OMPIPE_ASAN 1
#endif
#endif
#ifdef OMPIPE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace ompipe::arenas {

// Maps `alignment` more than is asked for and cuts both ends off.
Result<std::byte*> map_pages(uint64_t bytes, uint64_t alignment) {
  const uint64_t slack = alignment > 4096 ? alignment : 0;
  if (bytes <= UINT64_MAX - slack) {
    void* mapped =
        mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) {
      auto* start = static_cast<std::byte*>(mapped);
      const uint64_t head = round_up(uintptr_t(start), alignment) - uintptr_t(start);
      if (head) unmap_pages(start, head);
      if (slack > head) unmap_pages(start + head + bytes, slack - head);
      return start + head;
    }
  }
  return Error{.kind = ErrorKind::environment,
               .phase = "allocate",
               .reason = "the system has no address space for " + std::to_string(bytes) + " bytes",
               .errno_value = errno};
}

void unmap_pages(std::byte* base, uint64_t bytes) {
  unpoison(base, bytes);
  OMPIPE_CHECK(munmap(base, bytes) == 0, "munmap refused");
}

void advise_huge(std::byte* base, uint64_t bytes, bool huge) {
  // EINVAL: a kernel without transparent huge pages, where 4 KiB pages are right anyway.
  (void)madvise(base, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void discard_pages(std::byte* base, uint64_t bytes) {
  if (madvise(base, bytes, MADV_DONTNEED) == 0) return;
  // A host that called mlockall: locked pages need the other request (Linux 5.18), and without it their old bytes would
  // stay.
  constexpr int kDontNeedLocked = 24;
  OMPIPE_CHECK(madvise(base, bytes, kDontNeedLocked) == 0, "madvise refuses to give pages back");
}

#ifdef OMPIPE_ASAN
void poison(const std::byte* base, uint64_t bytes) { __asan_poison_memory_region(base, bytes); }
void unpoison(const std::byte* base, uint64_t bytes) { __asan_unpoison_memory_region(base, bytes); }
#else
void poison(const std::byte*, uint64_t) {}
void unpoison(const std::byte*, uint64_t) {}
#endif

}  // namespace ompipe::arenas
