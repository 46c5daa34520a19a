// Matrix products by the values of each tuning field, the others at this CPU's profile. e03_tuning/run.py chooses from
// what it measures. `--smoke` runs small shapes once.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench_main.h"
#include "matmul_case.h"

namespace ompipe::bench {
namespace {

using kernels::MatMulSpec;
using kernels::WeightFormat;

constexpr int64_t kCopiesBytes = int64_t{256} << 20;

void run(benchmark::State& state, const MatMulCase& measured) {
  const MatMulOperands operands(measured);
  PackedProduct product(measured, operands);
  for (auto _ : state) product.run();
  state.counters["ops"] = benchmark::Counter(measured.flops(), benchmark::Counter::kIsIterationInvariantRate);
}

struct Field {
  const char* name;
  std::vector<int64_t> values;
  int64_t k = 2048, n = 2048, smoke_k = 256, smoke_n = 256;
};

// k is cut into equal strips, as few as can be: with K = 7680 into 15, 8, 5, 3 and 2, so each value is another program.
const std::vector<Field> kFields = {
    {"rows", {48, 72, 96, 132, 192}},
    {"tile-us", {10, 20, 40, 80, 160}},
    {"quantised-bytes", {64 << 10, 128 << 10, 256 << 10, 512 << 10}},
    {"strip-k", {512, 1024, 1632, 2560, 4096}, 7680, 1024, 7680, 32},
};

// Whether the field can matter for the product.
bool concerns(const std::string& field, const MatMulCase& measured) {
  if (field == "strip-k") return !measured.integer() && measured.m > (measured.nbits() ? 3 : 24);
  if (field == "quantised-bytes") return measured.integer() && measured.m > 1;
  if (field == "rows") return measured.m > 24;
  return true;
}

std::vector<MatMulSpec> specs(int64_t k, int64_t n) {
  const MatMulSpec floats = {.format = WeightFormat::f32, .k = k, .n = n};
  const MatMulSpec level0 = {.format = WeightFormat::nbits, .k = k, .n = n, .block = 32};
  MatMulSpec level4 = level0;
  level4.accuracy_level = 4;
  return {floats, level0, level4};
}

void add_all(bool smoke) {
  for (const Field& field : kFields) {
    for (const MatMulSpec& spec : smoke ? specs(field.smoke_k, field.smoke_n) : specs(field.k, field.n)) {
      for (const int64_t m : smoke ? std::vector<int64_t>{32} : std::vector<int64_t>{1, 32, 128, 512}) {
        for (const int64_t value : field.values) {
          MatMulCase measured = {spec, m, 2, smoke || m > 32 ? 0 : kCopiesBytes};
          if (!concerns(field.name, measured)) continue;
          if (const char* expected = kernels::set_tuning(measured.tuning, field.name, value)) {
            std::fprintf(stderr, "bench_tuning: %s\n", expected);
            std::exit(1);
          }
          const std::string of = "tuning/field:" + std::string(field.name) + "/value:" + std::to_string(value) + "/";
          benchmark::RegisterBenchmark((of + measured.name("ompipe")).c_str(), run, measured)
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
