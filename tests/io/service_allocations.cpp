#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "ompipe/io/io_service.h"
#include "ompipe/io/memory_device.h"
#include "support.h"

namespace {

std::atomic<size_t> allocations{0};

}  // namespace

// The whole program's: counting is the only way to prove that nothing is allocated.
void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

using namespace ompipe::io;
using namespace ompipe::io::testing;

TEST_SUITE_BEGIN("service_allocations");

TEST_CASE("a request allocates nothing, whether it is read, promoted or withdrawn") {
  struct Counter final : CompletionSink {
    void complete(Completion) noexcept override { reported.fetch_add(1); }
    std::atomic<size_t> reported{0};
  };
  for (const uint32_t threads : {0u, 2u}) {
    CAPTURE(threads);
    MemoryDevice device;
    const auto file = device.add("f", pattern(4096));
    std::vector<std::byte> out(4096);
    Counter counter;
    std::atomic<uint32_t> started{0};
    IoService service(device, counter, {.threads = threads, .max_requests = 64, .on_thread_start = [&](uint32_t) {
                                          started.fetch_add(1);
                                        }});
    while (started < threads) std::this_thread::yield();
    const size_t before = allocations.load();
    for (uint64_t round = 0; round < 100; ++round) {
      for (uint64_t i = 0; i < 64; ++i) {
        const auto priority = static_cast<Priority>(i % 3);
        const auto result = service.submit({.id = round * 64 + i,
                                            .file = file,
                                            .length = 4096,
                                            .destination = out,
                                            .priority = priority,
                                            .plan_position = 64 - i});
        CHECK(result == SubmitResult::accepted);
      }
      for (uint64_t i = 0; i < 64; i += 4) service.promote(round * 64 + i, Priority::critical);
      for (uint64_t i = 0; i < 64; i += 5) service.cancel(round * 64 + i);
      while (threads == 0 && service.run_one()) {
      }
      while (counter.reported < 64 * (round + 1)) std::this_thread::yield();
    }
    CHECK(allocations.load() == before);
  }
}

TEST_SUITE_END();
