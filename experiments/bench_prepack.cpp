// Packing weights, in ranges of 1 MiB as they arrive from storage, against memcpy of the same source and, where the
// packed bytes go to memory that was never touched, against touching as much of it. Sources come from memory: the
// copies used in turn exceed the last-level cache. `--smoke` runs small shapes once; the packing carries a checksum of
// the packed bytes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench_main.h"
#include "bench_memory.h"
#include "ompipe/kernels/matmul.h"
#include "tile_team.h"

namespace ompipe::bench {
namespace {

using kernels::MatMulSpec;
using kernels::PackedLayout;
using kernels::WeightFormat;

constexpr int64_t kRangeBytes = 1 << 20, kPageBytes = 4096;

enum class Work { pack, copy, touch };
constexpr const char* kWorkNames[] = {"ompipe", "memcpy", "touch"};

// One pass over a weight, a tile for each range: of the target where it is only touched, else of the source.
struct Pass {
  const PackedLayout* layout;
  const std::byte* source;
  const std::byte* scales;
  std::byte* target;
  int64_t bytes;  // that are cut into ranges
  Work work;
};

void run_range(const void* arguments, int, int64_t tile, std::byte*) {
  const Pass& pass = *static_cast<const Pass*>(arguments);
  const int64_t begin = tile * kRangeBytes, end = std::min(begin + kRangeBytes, pass.bytes);
  switch (pass.work) {
    case Work::pack:
      return kernels::pack_range(*pass.layout, {pass.source + begin, pass.scales, nullptr}, begin, end, pass.target);
    case Work::copy:
      std::memcpy(pass.target + begin, pass.source + begin, end - begin);
      return;
    case Work::touch:
      for (int64_t at = begin; at < end; at += kPageBytes) pass.target[at] = std::byte{1};
  }
}

int64_t whole_pages(int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// Copies of a source, and of its scales.
struct Sources {
  Sources(const PackedLayout& layout, bool smoke)
      : layout(layout),
        copies(smoke ? 1 : std::max<int64_t>(1, (int64_t{256} << 20) / layout.source_bytes)),
        stride(whole_pages(layout.source_bytes)),
        bytes(copies * stride),
        scales(copies * layout.scales_bytes + 1) {
    for (int64_t i = 0; i < layout.source_bytes; ++i) bytes.data()[i] = static_cast<std::byte>(i * 40503 >> 8);
    for (int64_t i = 1; i < copies; ++i) std::memcpy(bytes.data() + i * stride, bytes.data(), layout.source_bytes);
  }
  void next(Pass& pass) {
    const int64_t copy = used++ % copies;
    pass.source = bytes.data() + copy * stride;
    pass.scales = scales.data() + copy * layout.scales_bytes;
  }

  const PackedLayout& layout;
  const int64_t copies, stride;
  BenchMemory bytes, scales;
  int64_t used = 0;
};

struct Case {
  MatMulSpec spec;
  Work work;
  BenchMemory::Pages pages;
  int threads;
  bool smoke;
};

void run(benchmark::State& state, const Case& bench) {
  const PackedLayout layout = *kernels::make_layout(bench.spec, kernels::best_isa());
  Sources sources(layout, bench.smoke);
  const int64_t target_bytes = bench.work == Work::copy ? layout.source_bytes : layout.packed_bytes;
  const bool fresh = bench.pages == BenchMemory::Pages::fresh;
  const int64_t targets = fresh ? 1 : sources.copies, target_stride = whole_pages(target_bytes);
  auto target = std::make_unique<BenchMemory>(targets * target_stride, bench.pages);
  Pass pass = {.layout = &layout,
               .source = nullptr,
               .scales = nullptr,
               .target = target->data(),
               .bytes = bench.work == Work::touch ? layout.packed_bytes : layout.source_bytes,
               .work = bench.work};
  kernels::TiledCall call;
  call.arguments = &pass;
  call.run_tile = run_range;
  call.phase_count = 1;
  call.tile_counts = {(pass.bytes + kRangeBytes - 1) / kRangeBytes};
  TileTeam team(bench.threads, 0);
  for (auto _ : state) {
    pass.target = target->data() + sources.used % targets * target_stride;
    sources.next(pass);
    team.run(call);
    if (fresh) {
      state.PauseTiming();
      target = std::make_unique<BenchMemory>(target_stride, bench.pages);
      state.ResumeTiming();
    }
  }
  const auto rate = [](int64_t bytes) {
    return benchmark::Counter(static_cast<double>(bytes), benchmark::Counter::kIsIterationInvariantRate);
  };
  if (bench.work != Work::touch)
    state.counters["bytes"] = rate(layout.source_bytes + layout.scales_bytes + target_bytes);
  state.counters["target_bytes"] = rate(target_bytes);
  if (fresh) {
    pass.target = target->data();
    team.run(call);
  }
  uint64_t sum = 0;
  for (int64_t i = 0; i < target_bytes; ++i) sum = sum * 31 + static_cast<uint64_t>(pass.target[i]);
  state.counters["checksum"] = static_cast<double>(sum >> 32);
}

void add_all(bool smoke) {
  const int64_t size = smoke ? 900 : 4096;
  struct Kind {
    const char* name;
    MatMulSpec spec;
  };
  const Kind kinds[] = {
      {"nbits4", {.format = WeightFormat::nbits, .k = size, .n = size, .block = 32}},
      {"f32", {.format = WeightFormat::f32, .k = size, .n = size}},
      {"f32-transposed", {.format = WeightFormat::f32, .k = size, .n = size, .trans_b = true}},
      {"f16", {.format = WeightFormat::f16, .k = size, .n = size}},
  };
  const auto add = [&](const Kind& kind, BenchMemory::Pages pages, int threads, Work work) {
    const std::string name = std::string("prepack/impl:") + kWorkNames[size_t(work)] + "/kind:" + kind.name +
                             "/memory:" + (pages == BenchMemory::Pages::fresh ? "fresh" : "touched") +
                             "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(), run, Case{kind.spec, work, pages, threads, smoke})
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (const Kind& kind : kinds) {
    for (const int threads : {1, 2}) {
      for (const Work work : {Work::pack, Work::copy}) add(kind, BenchMemory::Pages::touched, threads, work);
      for (const Work work : {Work::pack, Work::copy, Work::touch}) add(kind, BenchMemory::Pages::fresh, threads, work);
    }
  }
}

}  // namespace
}  // namespace ompipe::bench

int main(int argc, char** argv) { return ompipe::bench::bench_main(argc, argv, ompipe::bench::add_all); }
