// Packing weights, in ranges of 1 MiB as they arrive from storage, against memcpy of the same source. `--smoke` runs
// small shapes once; the packing carries a checksum of the packed bytes.
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

constexpr int64_t kRangeBytes = 1 << 20;

// One pass over a weight, a tile for each range.
struct Pass {
  const PackedLayout* layout;
  const std::byte* source;
  const std::byte* scales;
  std::byte* target;
  bool copy;  // memcpy in place of packing
};

void run_range(const void* arguments, int, int64_t tile, std::byte*) {
  const Pass& pass = *static_cast<const Pass*>(arguments);
  const int64_t begin = tile * kRangeBytes, end = std::min(begin + kRangeBytes, pass.layout->source_bytes);
  if (pass.copy) {
    std::memcpy(pass.target + begin, pass.source + begin, end - begin);
  } else {
    kernels::pack_range(*pass.layout, {pass.source + begin, pass.scales, nullptr}, begin, end, pass.target);
  }
}

void run(benchmark::State& state, const MatMulSpec& spec, bool copy, BenchMemory::Pages pages, int threads) {
  const PackedLayout layout = *kernels::make_layout(spec, kernels::best_isa());
  BenchMemory source(layout.source_bytes), scales(layout.scales_bytes + 1);
  for (int64_t i = 0; i < layout.source_bytes; ++i) source.data()[i] = static_cast<std::byte>(i * 40503 >> 8);
  const int64_t target_bytes = copy ? layout.source_bytes : layout.packed_bytes;
  auto target = std::make_unique<BenchMemory>(target_bytes, pages);
  Pass pass = {&layout, source.data(), scales.data(), target->data(), copy};
  kernels::TiledCall call;
  call.arguments = &pass;
  call.run_tile = run_range;
  call.phase_count = 1;
  call.tile_counts = {(layout.source_bytes + kRangeBytes - 1) / kRangeBytes};
  TileTeam team(threads, 0);
  for (auto _ : state) {
    team.run(call);
    if (pages == BenchMemory::Pages::fresh) {
      state.PauseTiming();
      target = std::make_unique<BenchMemory>(target_bytes, pages);
      pass.target = target->data();
      state.ResumeTiming();
    }
  }
  state.counters["bytes"] =
      benchmark::Counter(static_cast<double>(layout.source_bytes + layout.scales_bytes + target_bytes),
                         benchmark::Counter::kIsIterationInvariantRate);
  if (pages == BenchMemory::Pages::fresh) team.run(call);
  uint64_t sum = 0;
  for (int64_t i = 0; i < target_bytes; ++i) sum = sum * 31 + static_cast<uint64_t>(target->data()[i]);
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
  for (const Kind& kind : kinds) {
    for (auto pages : {BenchMemory::Pages::touched, BenchMemory::Pages::fresh}) {
      for (int threads : {1, 2}) {
        for (bool copy : {false, true}) {
          const std::string name = std::string("prepack/impl:") + (copy ? "memcpy" : "ompipe") + "/kind:" + kind.name +
                                   "/memory:" + (pages == BenchMemory::Pages::fresh ? "fresh" : "touched") +
                                   "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(), run, kind.spec, copy, pages, threads)
              ->UseRealTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ompipe::bench

int main(int argc, char** argv) { return ompipe::bench::bench_main(argc, argv, ompipe::bench::add_all); }
