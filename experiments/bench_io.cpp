// The I/O service's rates by read path, chunk size, threads and state of the page cache, on one file and in memory.
//
//     bench_io --benchmark_filter=cache:cold        all chunks of one file, submitted at once, until the last is
//     reported bench_io --smoke                              4 MiB instead of 256 MiB, one repetition each
//
// The file lies in $TMPDIR (default /tmp), so this measures that file system. Labels carry the digest of what was read.
#include <benchmark/benchmark.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench_main.h"
#include "ompipe/arenas/mutex.h"
#include "ompipe/io/atomic_file.h"
#include "ompipe/io/digest.h"
#include "ompipe/io/io_service.h"
#include "ompipe/io/memory_device.h"
#include "ompipe/io/page_cache.h"
#include "ompipe/io/posix_device.h"

namespace {

using namespace ompipe::io;

class CountingSink final : public CompletionSink {
 public:
  void complete(Completion completion) noexcept override {
    ompipe::MutexLock lock(mutex_);
    failed_ |= completion.status != ReadStatus::done;
    mapped_[completion.id] = std::move(completion.mapped);
    if (left_ > 0 && --left_ == 0) finished_.notify_one();
  }
  void expect(size_t count) {
    ompipe::MutexLock lock(mutex_);
    mapped_.assign(count, {});
    left_ = count;
  }
  // What was mapped, by request id.
  std::vector<MappedBytes> mapped() {
    ompipe::MutexLock lock(mutex_);
    return mapped_;
  }
  // Whether every read was done.
  bool wait() {
    ompipe::MutexLock lock(mutex_);
    while (left_ > 0) finished_.wait(mutex_);
    return !failed_;
  }

 private:
  ompipe::Mutex mutex_;
  std::condition_variable_any finished_;
  size_t left_ OMPIPE_GUARDED_BY(mutex_) = 0;
  bool failed_ OMPIPE_GUARDED_BY(mutex_) = false;
  std::vector<MappedBytes> mapped_ OMPIPE_GUARDED_BY(mutex_);
};

// The file on disk and in memory, and the touched destination that every impl reads into.
struct Data {
  explicit Data(uint64_t size)
      : bytes(size), destination(static_cast<std::byte*>(std::aligned_alloc(size_t{2} << 20, size)), &std::free) {
    std::vector<std::byte> contents(size);
    uint64_t word = 1;
    for (size_t i = 0; i + 8 <= size; i += 8, word = word * 6364136223846793005 + 1442695040888963407) {
      std::memcpy(contents.data() + i, &word, 8);
    }
    expected = digest_of(contents);
    std::memset(destination.get(), 1, size);
    const char* folder = std::getenv("TMPDIR");
    path = std::string(folder ? folder : "/tmp") + "/ompipe_bench_io." + std::to_string(getpid());
    FileOperations operations;
    const auto published = publish_bytes(path, contents, operations);
    OMPIPE_CHECK(published.ok());
    file = FileHandle::open(path).value();
    memory_file = memory.add("memory", std::move(contents));
  }
  ~Data() { std::filesystem::remove(path); }

  uint64_t bytes;
  std::unique_ptr<std::byte, decltype(&std::free)> destination;
  std::string path;
  Hash128 expected;
  PosixDevice posix;
  MemoryDevice memory;
  std::shared_ptr<const FileHandle> file, memory_file;
};

struct Variant {
  const char* impl;
  ReadMode mode;
  bool in_memory;
};

void read_all(IoService& service, CountingSink& sink, Data& data, const Variant& variant, uint64_t chunk) {
  const uint64_t chunks = (data.bytes + chunk - 1) / chunk;
  sink.expect(chunks);
  for (uint64_t id = 0; id < chunks; ++id) {
    const uint64_t offset = id * chunk, length = std::min(chunk, data.bytes - offset);
    std::span<std::byte> place;
    if (variant.mode != ReadMode::mapped) place = {data.destination.get() + offset, length};
    service.submit({.id = id,
                    .file = variant.in_memory ? data.memory_file : data.file,
                    .offset = offset,
                    .length = length,
                    .destination = place,
                    .mode = variant.mode,
                    .plan_position = id});
  }
}

// Brings the file into the state that the name promises; a reason if that fails.
std::string set_cache(Data& data, bool cold) {
  if (cold) {
    const auto dropped = drop_cached_pages(*data.file);
    return dropped ? "" : dropped.error().message();
  }
  std::vector<std::byte> buffer(1 << 20);
  for (uint64_t offset = 0; offset < data.bytes; offset += buffer.size()) {
    if (data.posix.read(*data.file, offset, buffer, ReadMode::buffered) <= 0) return "the file can't be warmed";
  }
  const auto resident = resident_fraction(*data.file, 0, data.bytes);
  if (!resident) return resident.error().message();
  return *resident == 1 ? "" : "the page cache doesn't hold the file";
}

Hash128 digest_of_read(Data& data, CountingSink& sink, const Variant& variant) {
  if (variant.mode != ReadMode::mapped) return digest_of({data.destination.get(), data.bytes});
  DigestStream stream;
  for (const MappedBytes& mapped : sink.mapped()) stream.update(mapped.bytes);
  return stream.finish();
}

void read(benchmark::State& state, Data& data, Variant variant, uint64_t chunk, uint32_t threads, bool cold) {
  Device& device = variant.in_memory ? static_cast<Device&>(data.memory) : data.posix;
  std::memset(data.destination.get(), 1, data.bytes);
  if (const std::string reason = set_cache(data, cold); !reason.empty()) return state.SkipWithError(reason.c_str());
  const DeviceCounts before = device.counts();
  CountingSink sink;
  IoService service(device, sink, {.threads = threads});
  for (auto _ : state) {
    state.PauseTiming();
    sink.expect(0);  // unmaps what the last iteration mapped
    const std::string reason = cold ? set_cache(data, cold) : "";
    if (!reason.empty()) return state.SkipWithError(reason.c_str());
    state.ResumeTiming();
    read_all(service, sink, data, variant, chunk);
    if (!sink.wait()) return state.SkipWithError("a read failed");
  }
  const DeviceCounts after = device.counts();
  const auto total = static_cast<double>(state.iterations()) * static_cast<double>(data.bytes);
  state.SetBytesProcessed(static_cast<int64_t>(data.bytes) * state.iterations());
  state.counters["cpu_s_per_GiB"] = 1e-9 * static_cast<double>(service.cpu_ns()) / (total / (1 << 30));
  state.counters["physical_share"] = static_cast<double>(after.physical_bytes - before.physical_bytes) / total;
  const Hash128 digest = digest_of_read(data, sink, variant);
  if (digest != data.expected) return state.SkipWithError("wrong bytes");
  state.SetLabel(format_digest(digest));
}

// What the service itself costs: one request of 4 KiB from memory, submitted and carried out on the same thread.
void request(benchmark::State& state, Data& data) {
  CountingSink sink;
  IoService service(data.memory, sink, {.threads = 0});
  sink.expect(1);
  for (auto _ : state) {
    service.submit({.id = 0, .file = data.memory_file, .length = 4096, .destination = {data.destination.get(), 4096}});
    service.run_one();
  }
  state.SetLabel(format_hash(slice_hash({data.destination.get(), 4096})));
}

void hash(benchmark::State& state, Data& data) {
  Hash128 digest;
  for (auto _ : state) digest = digest_of({data.destination.get(), std::min<uint64_t>(data.bytes, 8 << 20)});
  state.SetBytesProcessed(static_cast<int64_t>(std::min<uint64_t>(data.bytes, 8 << 20)) * state.iterations());
  state.SetLabel(format_digest(digest));
}

void add_all(Data& data, bool smoke) {
  const Variant variants[] = {{"buffered", ReadMode::buffered, false},
                              {"direct", ReadMode::direct, false},
                              {"mapped", ReadMode::mapped, false},
                              {"memory", ReadMode::buffered, true}};
  for (const Variant& variant : variants) {
    for (const uint64_t chunk : {uint64_t{1} << 20, uint64_t{4} << 20}) {
      for (const uint32_t threads : {1u, 2u, 4u}) {
        for (const bool cold : {false, true}) {
          if (variant.in_memory && cold) continue;
          const std::string name = std::string("read/impl:") + variant.impl + "/chunk:" + std::to_string(chunk) +
                                   "/threads:" + std::to_string(threads) + "/cache:" + (cold ? "cold" : "warm");
          auto* const bench = benchmark::RegisterBenchmark(
              name.c_str(), [=, &data](benchmark::State& state) { read(state, data, variant, chunk, threads, cold); });
          bench->UseRealTime()->Unit(benchmark::kMillisecond);
          if (smoke) bench->Iterations(1);
        }
      }
    }
  }
  auto* const of_request = benchmark::RegisterBenchmark("request/impl:memory/bytes:4096/threads:0",
                                                        [&](benchmark::State& state) { request(state, data); });
  auto* const of_hash =
      benchmark::RegisterBenchmark("digest/bytes:8388608", [&](benchmark::State& state) { hash(state, data); });
  if (smoke) of_request->Iterations(1);
  if (smoke) of_hash->Iterations(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<Data> data;
  return ompipe::bench::bench_main(argc, argv, [&](bool smoke) {
    data.emplace((smoke ? uint64_t{4} : uint64_t{256}) << 20);
    add_all(*data, smoke);
  });
}
