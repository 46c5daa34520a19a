// Matrix kernels against the measured ceiling of the machine. Weights come from memory: the copies used in turn exceed
// the last-level cache. `--smoke` runs small shapes once; every benchmark carries a checksum of its output.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench_main.h"
#include "matmul_case.h"

namespace ompipe::bench {
namespace {

void count(benchmark::State& state, const MatMulCase& measured, int64_t weight_bytes) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters[measured.nbits() ? "ops" : "flops"] = benchmark::Counter(measured.flops(), rate);
  state.counters["weight_bytes"] = benchmark::Counter(static_cast<double>(weight_bytes), rate);
}

void run_ompipe(benchmark::State& state, const MatMulCase& measured) {
  const MatMulOperands operands(measured);
  PackedProduct product(measured, operands);
  const float* out = nullptr;
  for (auto _ : state) out = product.run();
  count(state, measured, product.weight_bytes());
  double sum = 0;
  for (int64_t i = 0; i < measured.m * measured.spec.n; ++i)
    sum += static_cast<double>(out[i]) * static_cast<double>(i % 97 + 1);
  state.counters["checksum"] = sum;
}

void run_limit(benchmark::State& state, const MatMulCase& measured) {
  const int64_t weight_bytes = kernels::make_layout(measured.spec, kernels::best_isa())->packed_bytes;
  LimitProduct limit(measured, weight_bytes);
  for (auto _ : state) limit.run();
  count(state, measured, weight_bytes);
}

void add(const MatMulCase& bench) {
  for (const char* impl : {"ompipe", "limit"}) {
    const auto run = impl == std::string("ompipe") ? run_ompipe : run_limit;
    benchmark::RegisterBenchmark(bench.name(impl).c_str(), run, bench)->UseRealTime()->Unit(benchmark::kMicrosecond);
  }
}

void add_all(bool smoke) {
  for (const MatMulCase& measured : matmul_cases(smoke)) add(measured);
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
