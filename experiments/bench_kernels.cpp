// Matrix kernels against the measured ceiling of the machine. Weights come from memory: the copies used in turn exceed
// the last-level cache. `--smoke` runs small shapes once; every benchmark carries a checksum of its output.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench_main.h"
#include "bench_memory.h"
#include "ceilings.h"
#include "ompipe/kernels/matmul.h"
#include "tile_team.h"

namespace ompipe::bench {
namespace {

using kernels::Isa;
using kernels::MatMulArgs;
using kernels::MatMulSpec;
using kernels::PackedLayout;
using kernels::ScaleType;
using kernels::WeightFormat;

struct Case {
  MatMulSpec spec;
  int64_t m;
  int threads;
  int64_t copies_bytes;  // of packed weights at least, used in turn

  bool integer() const { return spec.format == WeightFormat::nbits && spec.accuracy_level == 4; }
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(spec.k) * static_cast<double>(spec.n);
  }

  std::string name(const std::string& impl) const {
    std::string name = spec.format == WeightFormat::nbits ? "matmul_nbits/impl:" + impl : "gemm_f32/impl:" + impl;
    if (spec.format == WeightFormat::nbits) {
      name += "/bits:4/block:" + std::to_string(spec.block) + "/acc:" + std::to_string(spec.accuracy_level);
    }
    return name + "/M:" + std::to_string(m) + "/K:" + std::to_string(spec.k) + "/N:" + std::to_string(spec.n) +
           "/threads:" + std::to_string(threads);
  }
};

// Random bytes, but small finite numbers where floats stand.
void fill(const Case& bench, const PackedLayout& layout, std::byte* b, std::vector<float>& scales) {
  std::minstd_rand random(1);
  if (bench.spec.format == WeightFormat::f32) {
    float* floats = reinterpret_cast<float*>(b);
    for (int64_t i = 0; i < layout.source_bytes / 4; ++i) floats[i] = static_cast<float>(random() % 2001) / 1000 - 1;
    return;
  }
  for (int64_t i = 0; i < layout.source_bytes; ++i) b[i] = static_cast<std::byte>(random());
  for (float& scale : scales) scale = static_cast<float>(random() % 1000 + 500) / 1e5f;
}

void count(benchmark::State& state, const Case& bench, int64_t weight_bytes) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters[bench.spec.format == WeightFormat::nbits ? "ops" : "flops"] = benchmark::Counter(bench.flops(), rate);
  state.counters["weight_bytes"] = benchmark::Counter(static_cast<double>(weight_bytes), rate);
}

void run_ompipe(benchmark::State& state, const Case& bench) {
  const PackedLayout layout = *kernels::make_layout(bench.spec, kernels::best_isa());
  const int64_t copies = std::max<int64_t>(1, bench.copies_bytes / layout.packed_bytes);
  const int64_t copy_bytes = (layout.packed_bytes + 4095) / 4096 * 4096;
  BenchMemory source(layout.source_bytes), packed(copies * copy_bytes);
  std::vector<float> scales(layout.scales_bytes / 4);
  fill(bench, layout, source.data(), scales);
  const kernels::PackSources sources = {source.data(), reinterpret_cast<const std::byte*>(scales.data()), nullptr};
  kernels::pack_range(layout, sources, 0, layout.source_bytes, packed.data());
  for (int64_t i = 1; i < copies; ++i) std::memcpy(packed.data() + i * copy_bytes, packed.data(), layout.packed_bytes);

  BenchMemory a(bench.m * bench.spec.k * 4), out(bench.m * bench.spec.n * 4);
  BenchMemory shared(kernels::shared_scratch_bytes(layout, bench.m) + 1);
  for (int64_t i = 0; i < bench.m * bench.spec.k; ++i) a.floats()[i] = static_cast<float>(i * 7919 % 2001) / 1000 - 1;
  MatMulArgs args;
  args.layout = &layout;
  args.m = bench.m;
  args.a = a.floats();
  args.lda = bench.spec.k;
  args.out = out.floats();
  args.ldc = bench.spec.n;
  args.shared_scratch = shared.data();
  const kernels::TiledCall call = kernels::matmul_call(args);
  TileTeam team(bench.threads, call.tile_scratch_bytes);
  int64_t next = 0;
  for (auto _ : state) {
    args.packed = packed.data() + next++ % copies * copy_bytes;
    team.run(call);
  }
  count(state, bench, layout.packed_bytes);
  double sum = 0;
  for (int64_t i = 0; i < bench.m * bench.spec.n; ++i)
    sum += static_cast<double>(out.floats()[i]) * static_cast<double>(i % 97 + 1);
  state.counters["checksum"] = sum;
}

// Few rows are bound by reading the weights, many by arithmetic.
void run_limit(benchmark::State& state, const Case& bench) {
  const PackedLayout layout = *kernels::make_layout(bench.spec, kernels::best_isa());
  const bool reads = bench.m <= 4;
  const int64_t copies = reads ? std::max<int64_t>(1, bench.copies_bytes / layout.packed_bytes) : 1;
  BenchMemory bytes(reads ? copies * layout.packed_bytes : 1);
  Ceiling ceiling = {Ceiling::Kind::four_stream_read, layout.packed_bytes / 1024 * 1024, bytes.data()};
  if (!reads) {
    ceiling.kind = bench.integer() ? Ceiling::Kind::int8_dot : Ceiling::Kind::float_fma;
    ceiling.amount = static_cast<int64_t>(bench.flops());
  }
  const kernels::TiledCall call = ceiling_call(ceiling);
  TileTeam team(bench.threads, 0);
  int64_t next = 0;
  for (auto _ : state) {
    ceiling.bytes = bytes.data() + next++ % copies * ceiling.amount;
    team.run(call);
  }
  count(state, bench, layout.packed_bytes);
}

void add(const Case& bench) {
  for (const char* impl : {"ompipe", "limit"}) {
    const auto run = impl == std::string("ompipe") ? run_ompipe : run_limit;
    benchmark::RegisterBenchmark(bench.name(impl).c_str(), run, bench)->UseRealTime()->Unit(benchmark::kMicrosecond);
  }
}

void add_all(bool smoke) {
  struct Shape {
    int64_t k, n;
  };
  const std::vector<Shape> shapes = smoke ? std::vector<Shape>{{256, 200}}
                                          : std::vector<Shape>{{896, 896}, {2048, 2048}, {4096, 4096}, {4096, 11008}};
  const std::vector<int64_t> rows = smoke ? std::vector<int64_t>{1, 32} : std::vector<int64_t>{1, 8, 32, 128, 512};
  for (const Shape& shape : shapes) {
    for (int64_t m : rows) {
      for (int threads : {1, 2}) {
        const int64_t copies_bytes = smoke || m > 32 ? 0 : int64_t{256} << 20;
        add({{.format = WeightFormat::f32, .k = shape.k, .n = shape.n}, m, threads, copies_bytes});
        for (int level : {4, 0}) {
          MatMulSpec spec = {.format = WeightFormat::nbits, .k = shape.k, .n = shape.n, .block = 32};
          spec.accuracy_level = level;
          add({spec, m, threads, copies_bytes});
        }
      }
    }
  }
}

}  // namespace
}  // namespace ompipe::bench

int main(int argc, char** argv) {
  if (!ompipe::kernels::isa_available(ompipe::kernels::Isa::avx2)) {
    std::fprintf(stderr, "bench_kernels: the ceilings need AVX2 and FMA, which this CPU lacks\n");
    return 1;
  }
  return ompipe::bench::bench_main(argc, argv, ompipe::bench::add_all);
}
