#include "ompipe/cli/heap_count.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<uint64_t> allocations{0};
void count() { allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OMPIPE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OMPIPE_SANITIZED 1
#endif
#endif

#ifdef OMPIPE_SANITIZED
// The sanitizer's own allocator tells.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));
namespace {

const int installed = __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { count(); },
                                                                [](const volatile void*) {});

}  // namespace
#else
// In front of glibc's, which the program's and every library's calls then go through.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t elements, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept {
  count();
  return __libc_malloc(bytes);
}
void* calloc(size_t elements, size_t bytes) noexcept {
  count();
  return __libc_calloc(elements, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
  count();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  count();
  void* const found = __libc_memalign(alignment, bytes);
  if (!found) return ENOMEM;
  *memory = found;
  return 0;
}
}
#endif

namespace ompipe::cli {

uint64_t heap_allocations() { return allocations.load(std::memory_order_relaxed); }

}  // namespace ompipe::cli
