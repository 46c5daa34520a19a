#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "../no_new_threads.h"
#include "ompipe/io/posix_device.h"
#include "service_fixture.h"

using namespace ompipe::io;
using namespace ompipe::io::testing;

TEST_SUITE_BEGIN("service_lifetime");

TEST_CASE("closing reports what is queued and what is in flight as cancelled, each once") {
  for (const uint32_t threads : {1u, 2u, 4u}) {
    CAPTURE(threads);
    GatedService s({.threads = threads});
    for (uint64_t id = 0; id < 10; ++id) s.submit(id, Priority::critical, id);
    s.device.wait_started(threads);
    std::thread closer([&] { s.service.close(); });
    s.sink.wait_for(10 - threads);  // the queued ones are withdrawn before close() waits for the others
    CHECK(s.service.submit(s.request(20, Priority::critical, 0)) == SubmitResult::closed);
    s.device.open_all();
    closer.join();
    CHECK(s.sink.all().size() == 10);
    for (uint64_t id = 0; id < 10; ++id) CHECK(s.sink.of(id).status == ReadStatus::cancelled);
    CHECK(s.device.started().size() == threads);
    s.service.close();
  }
}

TEST_CASE("a service without work closes, with and without threads") {
  for (const uint32_t threads : {0u, 1u, 8u}) GatedService({.threads = threads});
}

TEST_CASE("the service refuses what exceeds its slots, and takes more when one is reported") {
  GatedService s({.threads = 1, .max_requests = 2});
  s.submit(0, Priority::critical, 0);
  s.submit(1, Priority::critical, 1);
  CHECK(s.service.submit(s.request(2, Priority::critical, 2)) == SubmitResult::full);
  CHECK(s.service.cancel(1) == CancelResult::withdrawn);
  s.submit(2, Priority::critical, 2);
  s.device.open_all();
  s.sink.wait_for(3);
  s.submit(0, Priority::critical, 0);  // its id is free again
  s.sink.wait_for(4);
}

TEST_CASE("without threads reads happen where run_one is called, in the same order") {
  GatedService s({.threads = 0});
  s.device.open_all();
  s.submit(1, Priority::background, 0);
  s.submit(2, Priority::prefetch, 2);
  s.submit(3, Priority::critical, 3);
  CHECK(s.sink.all().empty());
  while (s.service.run_one()) {
  }
  CHECK(s.sink.ids() == std::vector<RequestId>{3, 2, 1});
  CHECK(s.service.cpu_ns() > 0);
  s.submit(4, Priority::critical, 4);  // left queued: the fixture closes
}

TEST_CASE("each thread calls the start hook first, once, with its index") {
  std::atomic<uint32_t> seen{0};
  std::atomic<uint32_t> calls{0};
  {
    GatedService s({.threads = 3, .on_thread_start = [&](uint32_t thread) {
                      seen.fetch_or(1u << thread);
                      calls.fetch_add(1);
                    }});
  }
  CHECK(seen == 0b111);
  CHECK(calls == 3);
}

TEST_CASE("a service whose threads the system refuses says so and takes nothing") {
  ompipe::testing::without_new_threads([] {
    MemoryDevice device;
    CollectingSink sink;
    IoService service(device, sink, {.threads = 2});
    REQUIRE(!service.status().ok());
    CHECK(service.status().error().kind == ompipe::ErrorKind::environment);
    CHECK(service.status().error().message() == "start: I/O threads: started 0 of 2: Resource temporarily unavailable");
    std::byte out[16];
    CHECK(service.submit({.id = 1, .file = device.add("f", pattern(16)), .length = 16, .destination = out}) ==
          SubmitResult::closed);
  });
}

TEST_CASE("mapped reads arrive populated, with an owner that keeps the file") {
  const size_t descriptors = open_descriptors();
  {
    TemporaryDirectory directory;
    const auto expected = pattern(20 * kSliceBytes + 5);  // three population steps
    write_file(directory.path("f"), expected);
    PosixDevice device;
    CollectingSink sink;
    IoService service(device, sink, {.threads = 2});
    const uint64_t offset = 4097, length = expected.size() - offset;
    service.submit({.id = 1,
                    .file = *FileHandle::open(directory.path("f")),
                    .offset = offset,
                    .length = length,
                    .mode = ReadMode::mapped});
    service.submit(
        {.id = 2, .file = *FileHandle::open(directory.path("f")), .offset = 0, .length = 0, .mode = ReadMode::mapped});
    service.submit({.id = 3,
                    .file = *FileHandle::open(directory.path("f")),
                    .offset = offset,
                    .length = length + 1,
                    .mode = ReadMode::mapped});
    sink.wait_for(3);
    service.close();
    const Completion done = sink.of(1);
    CHECK(done.status == ReadStatus::done);
    CHECK(done.bytes == length);
    CHECK(done.mapped.owner != nullptr);
    REQUIRE(done.mapped.bytes.size() == length);
    CHECK(std::memcmp(done.mapped.bytes.data(), expected.data() + offset, length) == 0);
    CHECK(device.counts().mapped_bytes == length);
    CHECK(sink.of(2).status == ReadStatus::done);
    CHECK(sink.of(3).status == ReadStatus::failed);
    CHECK(sink.of(3).error->kind == ompipe::ErrorKind::bad_model);
  }
  CHECK(open_descriptors() == descriptors);
}

// Every request has begun before any is let through. Later its borrower has only the bytes and their owner: service,
// device, handle and the file's name are gone.
TEST_CASE("eight mapped borrows of one payload at once: the same bytes, each with an owner, let go in any order") {
  const size_t descriptors = open_descriptors();
  constexpr uint64_t kBorrows = 8, kOffset = 4097;
  const auto expected = pattern(3 * kSliceBytes + 5);
  const uint64_t length = expected.size() - kOffset;
  std::string path;
  std::vector<MappedBytes> borrowed;
  {
    TemporaryDirectory directory;
    path = directory.path("f");
    write_file(path, expected);
    PosixDevice disk;
    GatedDevice device(disk);
    CollectingSink sink;
    IoService service(device, sink, {.threads = kBorrows});
    const auto file = *FileHandle::open(path);
    for (uint64_t id = 0; id < kBorrows; ++id)
      service.submit({.id = id, .file = file, .offset = kOffset, .length = length, .mode = ReadMode::mapped});
    device.wait_started(kBorrows);
    CHECK(device.waiting() == kBorrows);
    device.open_all();
    sink.wait_for(kBorrows);
    for (uint64_t id = 0; id < kBorrows; ++id) {
      const Completion done = sink.of(id);
      CHECK(done.status == ReadStatus::done);
      CHECK(done.mapped.identity == file->identity());
      borrowed.push_back(done.mapped);
    }
    CHECK(disk.counts().mapped_bytes == kBorrows * length);
    std::filesystem::rename(path, path + ".gone");
    write_file(path, pattern(16));
  }
  CHECK(open_descriptors() > descriptors);
  std::atomic<uint64_t> right{0};
  std::barrier half_has_gone(kBorrows);
  std::vector<std::thread> borrowers;
  for (uint64_t i = 0; i < kBorrows; ++i) {
    borrowers.emplace_back([&, mine = std::move(borrowed[i]), i]() mutable {
      const auto is_right = [&] { return std::memcmp(mine.bytes.data(), expected.data() + kOffset, length) == 0; };
      right += mine.owner != nullptr && mine.bytes.size() == length && is_right();
      if (i % 2 == 0) mine = {};
      half_has_gone.arrive_and_wait();
      if (i % 2 == 1) right += is_right();
      mine = {};
    });
  }
  for (std::thread& borrower : borrowers) borrower.join();
  CHECK(right == kBorrows + kBorrows / 2);
  CHECK(open_descriptors() == descriptors);
  CHECK(read_text("/proc/self/maps").find(path) == std::string::npos);
}

TEST_CASE("a request that is reported holds nothing any more") {
  struct Witness final : CompletionSink {
    void complete(Completion) noexcept override { released = owner.expired(); }
    std::weak_ptr<const void> owner;
    bool released = false;
  } witness;
  MemoryDevice device;
  IoService service(device, witness, {.threads = 0});
  std::byte out[16];
  const auto file = device.add("f", pattern(16));
  const auto submit = [&] {
    const auto owner = std::make_shared<const int>();
    witness.owner = owner;
    witness.released = false;
    service.submit({.id = 1, .file = file, .length = 16, .destination = out, .destination_owner = owner});
  };
  submit();
  CHECK(service.run_one());
  CHECK(witness.released);
  submit();
  CHECK(service.cancel(1) == CancelResult::withdrawn);
  CHECK(witness.released);
  submit();
  service.close();
  CHECK(witness.released);
}

TEST_CASE("a file that changed since it was opened fails the read, although every byte arrived") {
  TemporaryDirectory directory;
  write_file(directory.path("f"), pattern(8192));
  PosixDevice device;
  CollectingSink sink;
  IoService service(device, sink, {.threads = 1});
  const auto file = *FileHandle::open(directory.path("f"));
  write_file(directory.path("f"), pattern(9000));
  std::vector<std::byte> out(8192);
  service.submit({.id = 1, .file = file, .length = 8192, .destination = out});
  sink.wait_for(1);
  REQUIRE(sink.of(1).status == ReadStatus::failed);
  CHECK(sink.of(1).error->reason.find("changed while in use") != std::string::npos);

  std::filesystem::resize_file(directory.path("f"), 100);
  service.submit({.id = 2, .file = file, .length = 8192, .destination = out});
  sink.wait_for(2);
  const Completion ended = sink.of(2);
  REQUIRE(ended.status == ReadStatus::failed);
  CHECK(ended.error->reason == "the file ended early");
  CHECK(ended.error->length == 8192);
  CHECK(ended.error->got == 100);
  CHECK(ended.bytes == 100);
}

TEST_SUITE_END();
