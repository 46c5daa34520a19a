// A first product on the file's own bytes, against packing first. `impl:portable` packs nothing that stays,
// `impl:fused` packs into memory that was never touched while it multiplies, `impl:pack-then-run` does one after the
// other, `impl:packed` has been packed long ago, `impl:limit` is the ceiling that bench_kernels uses, on the source's
// bytes. Sources come from memory: the copies used in turn exceed the last-level cache.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench_main.h"
#include "bench_memory.h"
#include "matmul_case.h"
#include "ompipe/kernels/portable.h"
#include "tile_team.h"

namespace ompipe::bench {
namespace {

using kernels::MatMulSpec;
using kernels::PackedLayout;
using kernels::PortableArgs;
using kernels::TiledCall;
using kernels::WeightFormat;

constexpr int64_t kRangeBytes = 1 << 20;  // of the source, a tile of packing

struct Case : MatMulCase {
  const char* kind;
};

// One weight's bytes, and copies of them.
struct Sources {
  Sources(const Case& bench, const PackedLayout& layout)
      : stride((layout.source_bytes + 4095) / 4096 * 4096),
        copies(bench.copies(stride)),
        b(copies * stride),
        scales(copies * layout.scales_bytes + 1),
        scales_bytes(layout.scales_bytes) {
    std::minstd_rand random(1);
    const auto small = [&](float step) { return static_cast<float>(random() % 1000 + 500) * step; };
    for (int64_t i = 0; i < layout.source_bytes; ++i) b.data()[i] = static_cast<std::byte>(random());
    if (bench.spec.format == WeightFormat::f32) {
      for (int64_t i = 0; i < layout.source_bytes / 4; ++i) b.floats()[i] = small(1e-3f);
    } else if (layout.scales_bytes == 0) {  // halves and bfloats of moderate size
      for (int64_t i = 1; i < layout.source_bytes; i += 2) b.data()[i] = static_cast<std::byte>(0x38 + random() % 8);
    }
    for (int64_t i = 0; i < layout.scales_bytes / 4; ++i) scales.floats()[i] = small(1e-5f);
    for (int64_t i = 1; i < copies; ++i) {
      std::memcpy(b.data() + i * stride, b.data(), layout.source_bytes);
      std::memcpy(scales.data() + i * scales_bytes, scales.data(), scales_bytes);
    }
  }
  kernels::PackSources copy(int64_t i) const {
    return {b.data() + i % copies * stride, scales.data() + i % copies * scales_bytes, nullptr};
  }

  int64_t stride, copies;
  BenchMemory b, scales;
  int64_t scales_bytes;
};

void pack_tile(const void* arguments, int, int64_t tile, std::byte*) {
  const PortableArgs& args = *static_cast<const PortableArgs*>(arguments);
  const PackedLayout& layout = *args.product.layout;
  const int64_t begin = tile * kRangeBytes, end = std::min(begin + kRangeBytes, layout.source_bytes);
  kernels::PackSources range = args.sources;
  range.range += begin;
  kernels::pack_range(layout, range, begin, end, args.packed);
}

TiledCall pack_call(const PortableArgs& args) {
  TiledCall call;
  call.arguments = &args;
  call.run_tile = pack_tile;
  call.phase_count = 1;
  call.tile_counts = {(args.product.layout->source_bytes + kRangeBytes - 1) / kRangeBytes};
  return call;
}

enum class Impl { portable, fused, pack_then_run, packed };

void count(benchmark::State& state, const Case& bench, const PackedLayout& layout) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["ops"] = benchmark::Counter(bench.flops(), rate);
  state.counters["source_bytes"] =
      benchmark::Counter(static_cast<double>(layout.source_bytes + layout.scales_bytes), rate);
}

void run(benchmark::State& state, const Case& bench, Impl impl) {
  const PackedLayout layout = *kernels::make_layout(bench.spec, kernels::best_isa());
  const Sources sources(bench, layout);
  BenchMemory a(bench.m * bench.spec.k * 4), out(bench.m * bench.spec.n * 4);
  BenchMemory shared(kernels::portable_shared_scratch_bytes(layout, bench.m) + 1);
  for (int64_t i = 0; i < bench.m * bench.spec.k; ++i) a.floats()[i] = static_cast<float>(i * 7919 % 2001) / 1000 - 1;
  // Packed copies for impl:packed; else one at a time, fresh for each run.
  const int64_t packed_stride = (layout.packed_bytes + 4095) / 4096 * 4096;
  std::unique_ptr<BenchMemory> packed;
  if (impl == Impl::packed) packed = std::make_unique<BenchMemory>(sources.copies * packed_stride);
  PortableArgs args;
  args.product = {.layout = &layout, .m = bench.m, .a = a.floats(), .lda = bench.spec.k};
  args.product.out = out.floats();
  args.product.ldc = bench.spec.n;
  args.product.shared_scratch = shared.data();
  const TiledCall pack = pack_call(args), product = kernels::matmul_call(args.product);
  const TiledCall fused = kernels::fused_call(args).value(), portable = kernels::portable_call(args).value();
  TileTeam team(bench.threads,
                std::max({product.tile_scratch_bytes, fused.tile_scratch_bytes, portable.tile_scratch_bytes}));
  for (int64_t i = 0; packed && i < sources.copies; ++i) {
    args.sources = sources.copy(i);
    args.packed = packed->data() + i * packed_stride;
    team.run(pack);
  }
  int64_t next = 0;
  for (auto _ : state) {
    args.sources = sources.copy(next);
    if (impl == Impl::fused || impl == Impl::pack_then_run) {
      state.PauseTiming();
      packed = std::make_unique<BenchMemory>(layout.packed_bytes, BenchMemory::Pages::fresh);
      args.packed = packed->data();
      state.ResumeTiming();
    } else if (impl == Impl::packed) {
      args.packed = packed->data() + next % sources.copies * packed_stride;
    }
    ++next;
    args.product.packed = args.packed;
    if (impl == Impl::portable) {
      team.run(portable);
    } else if (impl == Impl::fused) {
      team.run(fused);
    } else {
      if (impl == Impl::pack_then_run) team.run(pack);
      team.run(product);
    }
  }
  count(state, bench, layout);
  double sum = 0;
  for (int64_t i = 0; i < bench.m * bench.spec.n; ++i) {
    sum += static_cast<double>(out.floats()[i]) * static_cast<double>(i % 97 + 1);
  }
  state.counters["checksum"] = sum;
}

void run_limit(benchmark::State& state, const Case& bench) {
  const PackedLayout layout = *kernels::make_layout(bench.spec, kernels::best_isa());
  LimitProduct limit(bench, layout.source_bytes + layout.scales_bytes);
  for (auto _ : state) limit.run();
  count(state, bench, layout);
}

void add(const Case& bench) {
  const auto add_one = [&](const char* impl, const auto& body) {
    const std::string name = std::string("first_run/kind:") + bench.kind + "/impl:" + impl +
                             "/M:" + std::to_string(bench.m) + "/K:" + std::to_string(bench.spec.k) +
                             "/N:" + std::to_string(bench.spec.n) + "/threads:" + std::to_string(bench.threads);
    benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime()->Unit(benchmark::kMicrosecond);
  };
  for (auto [name, impl] : {std::pair{"portable", Impl::portable}, std::pair{"fused", Impl::fused},
                            std::pair{"pack-then-run", Impl::pack_then_run}, std::pair{"packed", Impl::packed}}) {
    add_one(name, [bench, impl = impl](benchmark::State& state) { run(state, bench, impl); });
  }
  add_one("limit", [bench](benchmark::State& state) { run_limit(state, bench); });
}

void add_all(bool smoke) {
  for (int64_t size : smoke ? std::vector<int64_t>{200} : std::vector<int64_t>{2048, 4096}) {
    const MatMulSpec floats = {.k = size, .n = size};
    MatMulSpec nbits = {.format = WeightFormat::nbits, .k = size, .n = size, .block = 32};
    struct Kind {
      const char* name;
      MatMulSpec spec;
    } kinds[] = {{"nbits4-acc4", nbits},     {"nbits4-acc0", nbits}, {"f32", floats},
                 {"f32-transposed", floats}, {"f16", floats},        {"f16-transposed", floats}};
    kinds[0].spec.accuracy_level = 4;
    kinds[3].spec.trans_b = kinds[5].spec.trans_b = true;
    kinds[4].spec.format = kinds[5].spec.format = WeightFormat::f16;
    for (const Kind& kind : kinds) {
      for (int64_t m : smoke ? std::vector<int64_t>{1, 8} : std::vector<int64_t>{1, 8, 32, 128}) {
        for (int threads : {1, 2}) add({{kind.spec, m, threads, smoke ? 0 : int64_t{128} << 20}, kind.name});
      }
    }
  }
}

}  // namespace
}  // namespace ompipe::bench

int main(int argc, char** argv) {
  if (!ompipe::kernels::isa_available(ompipe::kernels::Isa::avx2)) {
    std::fprintf(stderr, "bench_portable: the ceilings need AVX2 and FMA, which this CPU lacks\n");
    return 1;
  }
  return ompipe::bench::bench_main(argc, argv, ompipe::bench::add_all);
}
