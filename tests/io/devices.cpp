#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "ompipe/io/faulty_device.h"
#include "ompipe/io/gated_device.h"
#include "ompipe/io/memory_device.h"
#include "ompipe/io/posix_device.h"
#include "support.h"

using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

constexpr size_t kFileBytes = 3 * kSliceBytes + 1234;

// One device with one file, as the shared code sees it.
struct Case {
  std::string name;
  std::shared_ptr<Device> device;
  std::shared_ptr<const FileHandle> file;
  ReadMode mode;
};

// Every device that reads, over a file of the same bytes; a wrapper without faults or with open gates is one of them.
struct Devices {
  TemporaryDirectory directory;
  std::vector<std::byte> expected = pattern(kFileBytes);
  std::shared_ptr<MemoryDevice> memory = std::make_shared<MemoryDevice>();
  std::shared_ptr<PosixDevice> posix = std::make_shared<PosixDevice>();
  std::vector<Case> cases;

  Devices() {
    write_file(directory.path("f"), expected);
    const auto file = *FileHandle::open(directory.path("f"));
    const auto bytes = memory->add("f", expected);
    auto gated = std::make_shared<GatedDevice>(*memory);
    gated->open_all();
    cases = {
        {"buffered", posix, file, ReadMode::buffered},
        {"memory", memory, bytes, ReadMode::buffered},
        {"faulty", std::make_shared<FaultyDevice>(*posix, FaultRates{.short_read = 0.5}, 7), file, ReadMode::buffered},
        {"gated", gated, bytes, ReadMode::buffered}};
    if (file->direct_descriptor() >= 0) cases.push_back({"direct", posix, file, ReadMode::direct});
  }
};

// Reads a whole range as the service does; the number of bytes got.
size_t read_range(const Case& c, uint64_t offset, std::span<std::byte> out) {
  size_t got = 0;
  while (got < out.size()) {
    const ssize_t bytes = c.device->read(*c.file, offset + got, out.subspan(got), c.mode);
    REQUIRE(bytes >= 0);
    if (bytes == 0) break;
    got += static_cast<size_t>(bytes);
  }
  return got;
}

struct AlignedBuffer {
  std::unique_ptr<std::byte, decltype(&std::free)> memory{
      static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, 4 * kSliceBytes)), &std::free};
  std::span<std::byte> span{memory.get(), 4 * kSliceBytes};
};

}  // namespace

TEST_SUITE_BEGIN("devices");

TEST_CASE_FIXTURE(Devices, "every device gives the same bytes, aligned or not, inside the file and across its end") {
  AlignedBuffer buffer;
  const std::pair<uint64_t, uint64_t> ranges[] = {{0, kSliceBytes},
                                                  {0, kFileBytes},
                                                  {4096, 8192},
                                                  {1, 1},
                                                  {4095, 2},
                                                  {5000, 100000},
                                                  {4097, 4095},
                                                  {kFileBytes - 1, 1},
                                                  {3 * kSliceBytes, 1234},
                                                  {kFileBytes - 5000, 9000},
                                                  {kFileBytes, 10},
                                                  {kFileBytes + 5000, 10}};
  for (const Case& c : cases) {
    for (const auto& [offset, length] : ranges) {
      for (const size_t shift : {size_t{0}, size_t{1}, static_cast<size_t>(offset % kDirectAlignment)}) {
        INFO(c.name, " offset ", offset, " length ", length, " shift ", shift);
        std::fill(buffer.span.begin(), buffer.span.end(), std::byte{0xEE});
        const auto out = buffer.span.subspan(shift, length);
        const size_t there = offset < kFileBytes ? std::min<size_t>(length, kFileBytes - offset) : 0;
        CHECK(read_range(c, offset, out) == there);
        if (there > 0) CHECK(std::memcmp(out.data(), expected.data() + offset, there) == 0);
        CHECK(buffer.span[shift + length] == std::byte{0xEE});
        if (shift > 0) CHECK(buffer.span[shift - 1] == std::byte{0xEE});
      }
    }
  }
}

TEST_CASE_FIXTURE(Devices, "a direct read copies its unaligned ends only, where offset and address agree") {
  if (cases.back().mode != ReadMode::direct) return;  // the file system has no direct reads
  AlignedBuffer buffer;
  CHECK(read_range(cases.back(), 100, buffer.span.subspan(100, kSliceBytes)) == kSliceBytes);
  CHECK(posix->counts().copied_bytes == 4096 - 100 + 100);
  CHECK(posix->counts().logical_bytes == kSliceBytes);
  CHECK(read_range(cases.back(), 100, buffer.span.subspan(0, kSliceBytes)) == kSliceBytes);
  CHECK(posix->counts().copied_bytes == 4096 + kSliceBytes);
}

TEST_CASE_FIXTURE(Devices, "mappings show the same bytes, have an owner and outlive handle and device") {
  for (const Case& c : {cases[0], cases[1], cases[3]}) {
    INFO(c.name);
    MapOutcome outcome = c.device->map(c.file, 5001, 100000);
    REQUIRE(outcome.error == 0);
    CHECK(c.device->populate(*c.file, 5001, outcome.mapped.bytes) == 0);
    CHECK(outcome.mapped.owner != nullptr);
    CHECK(outcome.mapped.identity == c.file->identity());
    CHECK(std::memcmp(outcome.mapped.bytes.data(), expected.data() + 5001, 100000) == 0);
  }
  MapOutcome kept = posix->map(cases[0].file, 4096, 4096);
  CHECK(kept.mapped.alignment() == kDirectAlignment);
  CHECK(posix->map(cases[0].file, 5001, 9).mapped.alignment() == 1);
  cases.clear();
  posix.reset();
  std::filesystem::remove(directory.path("f"));
  CHECK(std::memcmp(kept.mapped.bytes.data(), expected.data() + 4096, 4096) == 0);
}

TEST_CASE_FIXTURE(Devices, "populating a mapping of a file that became shorter fails instead of raising a signal") {
  MapOutcome outcome = posix->map(cases[0].file, 0, kFileBytes);
  REQUIRE(outcome.error == 0);
  std::filesystem::resize_file(directory.path("f"), 4096);
  CHECK(posix->populate(*cases[0].file, 0, outcome.mapped.bytes) == EFAULT);
  CHECK(posix->populate(*cases[0].file, 0, outcome.mapped.bytes.first(4096)) == 0);
}

TEST_CASE_FIXTURE(Devices, "a device counts calls, bytes and time") {
  std::vector<std::byte> out(1000);
  CHECK(memory->read(*cases[1].file, 0, out, ReadMode::buffered) == 1000);
  CHECK(memory->read(*cases[1].file, kFileBytes, out, ReadMode::buffered) == 0);
  const DeviceCounts counts = memory->counts();
  CHECK(counts.calls == 2);
  CHECK(counts.logical_bytes == 1000);
  CHECK(counts.physical_bytes == 0);
  CHECK(counts.wall_ns > 0);
  CHECK(memory->read(*cases[0].file, 0, out, ReadMode::buffered) == -EBADF);
}

TEST_CASE("gates that are closed again hold reads that begin from then on") {
  MemoryDevice memory;
  const auto file = memory.add("f", pattern(1000));
  GatedDevice device(memory);
  device.open_all();
  std::vector<std::byte> out(10);
  CHECK(device.read(*file, 0, out, ReadMode::buffered) == 10);
  device.close_all();
  std::thread reader([&] { CHECK(device.read(*file, 10, out, ReadMode::buffered) == 10); });
  device.wait_started(2);
  CHECK(device.waiting() == 1);
  device.open(*file, 10);
  reader.join();
}

TEST_CASE("a faulty device does what its seed says, whatever happened before elsewhere in the file") {
  MemoryDevice memory;
  const auto file = memory.add("f", pattern(100000));
  const FaultRates rates{.short_read = 0.3, .interrupted = 0.2, .io_error = 0.1, .early_end = 0.1};
  const auto outcomes = [&](uint64_t seed, bool backwards) {
    FaultyDevice device(memory, rates, seed);
    std::vector<ssize_t> results(100);
    std::vector<std::byte> out(1000);
    for (size_t i = 0; i < 100; ++i) {
      const size_t at = backwards ? 99 - i : i;
      results[at] = device.read(*file, at * 1000, out, ReadMode::buffered);
    }
    return results;
  };
  CHECK(outcomes(1, false) == outcomes(1, true));
  CHECK(outcomes(1, false) != outcomes(2, false));
  size_t short_reads = 0, interrupted = 0, errors = 0, ends = 0;
  for (const ssize_t result : outcomes(3, false)) {
    short_reads += result > 0 && result < 1000;
    interrupted += result == -EINTR;
    errors += result == -EIO;
    ends += result == 0;
  }
  CHECK(short_reads > 10);
  CHECK(interrupted > 5);
  CHECK(errors > 1);
  CHECK(ends > 1);
}

TEST_SUITE_END();
