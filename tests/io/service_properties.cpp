#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <tuple>

#include "ompipe/io/faulty_device.h"
#include "ompipe/io/memory_device.h"
#include "ompipe/io/posix_device.h"
#include "ompipe/io/reordering_sink.h"
#include "support.h"

using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

void require(bool holds) { CHECK(holds); }

constexpr uint64_t kChunk = 3000;
constexpr uint64_t kChunks = 40;

// What the service promises, as the simplest code that has it: a list that is searched.
struct ModelQueue {
  struct Entry {
    uint64_t id, position, sequence;
    Priority priority;
  };
  std::vector<Entry> entries;
  uint64_t next_sequence = 0;

  auto find(uint64_t id) {
    return std::find_if(entries.begin(), entries.end(), [id](const Entry& entry) { return entry.id == id; });
  }
  uint64_t take_first() {
    const auto first = std::min_element(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.priority, a.position, a.sequence) < std::tie(b.priority, b.position, b.sequence);
    });
    const uint64_t id = first->id;
    entries.erase(first);
    return id;
  }
};

}  // namespace

TEST_SUITE_BEGIN("service_properties");

TEST_CASE("any sequence of submit, promote, cancel and run behaves as a searched list") {
  require(rc::check([] {
    MemoryDevice device;
    const auto file = device.add("f", pattern(16));
    CollectingSink sink;
    IoService service(device, sink, {.threads = 0, .max_requests = 16});
    ModelQueue model;
    std::vector<RequestId> expected;
    std::byte out[16];
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 8), rc::gen::inRange(0, 24), rc::gen::inRange(0, 9)));
    for (const auto& [step, id_choice, choice] : steps) {
      const uint64_t id = static_cast<uint64_t>(id_choice) << 32;  // equal low bits: the index must spread them
      const auto priority = static_cast<Priority>(choice % 3);
      const auto known = model.find(id);
      if (step < 4 && known == model.entries.end()) {
        const SubmitResult result = service.submit({.id = id,
                                                    .file = file,
                                                    .length = 16,
                                                    .destination = out,
                                                    .priority = priority,
                                                    .plan_position = static_cast<uint64_t>(choice / 3)});
        RC_ASSERT((result == SubmitResult::full) == (model.entries.size() == 16));
        if (result == SubmitResult::accepted) {
          model.entries.push_back({id, static_cast<uint64_t>(choice / 3), model.next_sequence++, priority});
        }
      } else if (step == 4) {
        RC_ASSERT(service.promote(id, priority) == (known != model.entries.end()));
        if (known != model.entries.end()) known->priority = priority;
      } else if (step == 5) {
        RC_ASSERT((service.cancel(id) == CancelResult::withdrawn) == (known != model.entries.end()));
        if (known != model.entries.end()) {
          expected.push_back(id);
          model.entries.erase(known);
        }
      } else if (step > 5) {
        const bool any = !model.entries.empty();
        if (any) expected.push_back(model.take_first());
        RC_ASSERT(service.run_one() == any);
      }
      RC_ASSERT(service.usage().queued == model.entries.size());
    }
    RC_ASSERT(sink.ids() == expected);
  }));
}

TEST_CASE("whatever a device does, a read has all its bytes or an error that says why") {
  TemporaryDirectory directory;
  const auto expected = pattern(kChunk * kChunks);
  write_file(directory.path("f"), expected);
  const auto on_disk = *FileHandle::open(directory.path("f"));
  require(rc::check([&] {
    const bool real = *rc::gen::arbitrary<bool>();
    const auto mode = static_cast<ReadMode>(*rc::gen::inRange(0, 3));
    MemoryDevice memory;
    PosixDevice posix;
    const auto file = real ? on_disk : memory.add("f", expected);
    const auto rate = [] { return 0.01 * *rc::gen::inRange(0, 30); };
    const FaultRates rates{.short_read = rate(),
                           .interrupted = rate(),
                           .io_error = rate() / 10,
                           .early_end = rate() / 10,
                           .delay = rate()};
    FaultyDevice device(real ? static_cast<Device&>(posix) : memory, rates, *rc::gen::arbitrary<uint64_t>());
    CollectingSink sink;
    std::vector<std::byte> out(kChunk * kChunks);
    IoService service(
        device, sink,
        {.threads = *rc::gen::inRange(1u, 5u), .inflight_bytes = *rc::gen::inRange<uint64_t>(1, 4 * kChunk)});
    for (uint64_t id = 0; id < kChunks; ++id) {
      const auto place = std::span(out).subspan(id * kChunk, mode == ReadMode::mapped ? 0 : kChunk);
      service.submit({.id = id,
                      .file = file,
                      .offset = id * kChunk,
                      .length = kChunk,
                      .destination = place,
                      .mode = mode,
                      .priority = static_cast<Priority>(id % 3),
                      .plan_position = id});
    }
    sink.wait_for(kChunks);
    service.close();
    for (uint64_t id = 0; id < kChunks; ++id) {
      const Completion completion = sink.of(id);
      const std::byte* wanted = expected.data() + id * kChunk;
      if (completion.status == ReadStatus::done) {
        const std::byte* got = mode == ReadMode::mapped ? completion.mapped.bytes.data() : out.data() + id * kChunk;
        RC_ASSERT(completion.bytes == kChunk);
        RC_ASSERT(!completion.error);
        RC_ASSERT(std::memcmp(got, wanted, kChunk) == 0);
        continue;
      }
      RC_ASSERT(completion.status == ReadStatus::failed);
      const ompipe::Error& error = *completion.error;
      RC_ASSERT(error.phase == "read");
      RC_ASSERT(error.offset == id * kChunk);
      RC_ASSERT(error.length == kChunk);
      RC_ASSERT(error.got == completion.bytes);
      RC_ASSERT(*error.got < kChunk);
      RC_ASSERT(error.errno_value == EIO || error.errno_value == EFAULT || error.reason == "the file ended early" ||
                (mode == ReadMode::direct && error.errno_value == EINVAL));
      RC_ASSERT(!completion.mapped.owner);
      if (mode != ReadMode::mapped) RC_ASSERT(std::memcmp(out.data() + id * kChunk, wanted, *error.got) == 0);
    }
    RC_ASSERT(service.usage().peak_speculative_bytes <= std::max(4 * kChunk, kChunk));
  }));
}

TEST_CASE("requests that are submitted, promoted and cancelled from many threads are each reported once") {
  require(rc::check([] {
    MemoryDevice memory;
    const auto file = memory.add("f", pattern(kChunk));
    FaultyDevice device(memory, {.short_read = 0.3, .delay = 0.3}, *rc::gen::arbitrary<uint64_t>());
    CollectingSink sink;
    std::vector<std::byte> out(3 * 50 * kChunk);
    IoService service(device, sink, {.threads = 3, .inflight_bytes = 2 * kChunk, .max_requests = 64});
    std::atomic<size_t> accepted{0};
    std::vector<std::thread> submitters;
    for (uint64_t submitter = 0; submitter < 3; ++submitter) {
      submitters.emplace_back([&, submitter] {
        for (uint64_t i = 0; i < 50; ++i) {
          const uint64_t id = submitter * 50 + i;
          const auto result = service.submit({.id = id,
                                              .file = file,
                                              .length = kChunk,
                                              .destination = std::span(out).subspan(id * kChunk, kChunk),
                                              .priority = static_cast<Priority>(i % 3)});
          accepted += result == SubmitResult::accepted;
          if (i % 4 == 1) service.promote(id - 1, Priority::critical);
          if (i % 5 == 2) service.cancel(id - 1);
        }
      });
    }
    for (std::thread& thread : submitters) thread.join();
    service.close();
    auto ids = sink.ids();
    std::sort(ids.begin(), ids.end());
    RC_ASSERT(ids.size() == accepted.load());
    RC_ASSERT(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  }));
}

TEST_CASE("a reordering sink loses nothing, and orders by its seed") {
  const auto order = [](uint64_t seed) {
    MemoryDevice device;
    const auto file = device.add("f", pattern(16));
    CollectingSink inner;
    ReorderingSink sink(inner, seed);
    IoService service(device, sink, {.threads = 0});
    std::byte out[16];
    for (uint64_t id = 0; id < 20; ++id) service.submit({.id = id, .file = file, .length = 16, .destination = out});
    while (service.run_one()) {
    }
    CHECK(sink.held() == 20);
    while (sink.deliver_one()) {
    }
    return inner.ids();
  };
  auto first = order(1);
  CHECK(first == order(1));
  CHECK(first != order(2));
  CHECK(!std::is_sorted(first.begin(), first.end()));
  std::sort(first.begin(), first.end());
  for (uint64_t id = 0; id < 20; ++id) CHECK(first[id] == id);
}

TEST_SUITE_END();
