// Makes the same product with two builds of the kernels' shared library, or two tunings of one, in turn in one process,
// and prints the median of the ratios of each pair: README.md.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "contender.h"
#include "options.h"

namespace ompipe::bench {
namespace {

struct Difference {
  int64_t elements = 0;                    // whose bits differ
  double largest = 0, largest_result = 0;  // infinite where a result isn't finite
};

double finite_or_infinite(double value) { return std::isfinite(value) ? std::abs(value) : INFINITY; }

// The result, of memory that held `before` in each byte: what isn't written shows.
std::vector<float> result_of(Contender& contender, const Operands& operands, int64_t elements, int before) {
  std::memset(operands.out.data(), before, elements * 4);
  contender.run(0);
  return {operands.out.floats(), operands.out.floats() + elements};
}

Difference difference_of(const std::vector<float>& a, const std::vector<float>& b) {
  Difference difference;
  for (size_t i = 0; i < a.size(); ++i) {
    difference.largest_result = std::max(difference.largest_result, finite_or_infinite(a[i]));
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) == 0) continue;
    ++difference.elements;
    difference.largest = std::max(difference.largest, finite_or_infinite(double{b[i]} - double{a[i]}));
  }
  return difference;
}

void print_difference(const Difference& difference, int64_t elements) {
  if (difference.elements == 0) {
    std::printf("results: same bits; the largest is %g\n", difference.largest_result);
  } else {
    std::printf("results: %lld of %lld differ, by %g at most; A's largest is %g\n",
                static_cast<long long>(difference.elements), static_cast<long long>(elements), difference.largest,
                difference.largest_result);
  }
}

double seconds_of(Contender& contender, int64_t copy) {
  const auto begin = std::chrono::steady_clock::now();
  contender.run(copy);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Times {
  std::vector<double> a, b;  // seconds, by pair
};

Times measure(Contender& a, Contender& b, const Options& options) {
  Times times;
  for (int64_t i = 0; i < options.pairs; ++i) {
    const int64_t copy = i % options.copies;
    const bool a_first = i % 2 == 0;
    if (a_first) times.a.push_back(seconds_of(a, copy));
    times.b.push_back(seconds_of(b, copy));
    if (!a_first) times.a.push_back(seconds_of(a, copy));
  }
  return times;
}

// The value that `part` of the sorted values lie below.
double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double at = std::clamp(part, 0.0, 1.0) * static_cast<double>(values.size());
  return values[std::min(values.size() - 1, static_cast<size_t>(at))];
}

void print_times(const Times& times, const Options& options) {
  std::vector<double> ratios;
  for (size_t i = 0; i < times.a.size(); ++i) ratios.push_back(times.b[i] / times.a[i]);
  // The median of what the pairs are drawn from lies between these 19 times in 20.
  const double reach = 1 / std::sqrt(static_cast<double>(ratios.size()));
  std::printf("time of B to A: %.4f (95%%: %.4f to %.4f), median of %zu pairs\n", quantile(ratios, 0.5),
              quantile(ratios, 0.5 - reach), quantile(ratios, 0.5 + reach), ratios.size());
  const double gflop =
      2e-9 * static_cast<double>(options.m) * static_cast<double>(options.k) * static_cast<double>(options.n);
  const auto print_rates = [gflop](const char* name, const std::vector<double>& seconds) {
    std::printf("%s: best %.1f, median %.1f Gflop/s\n", name, gflop / quantile(seconds, 0),
                gflop / quantile(seconds, 0.5));
  };
  print_rates("A", times.a);
  print_rates("B", times.b);
}

void print_product(const Options& options) {
  if (options.nbits) {
    std::printf("nbits, bits %d, block %d, level %d%s", static_cast<int>(options.bits), static_cast<int>(options.block),
                static_cast<int>(options.level), options.half_scales ? ", half scales" : "");
  } else {
    std::printf("f32");
  }
  std::printf(", M %lld, K %lld, N %lld, copies of the weights %lld\n", static_cast<long long>(options.m),
              static_cast<long long>(options.k), static_cast<long long>(options.n),
              static_cast<long long>(options.copies));
}

int compare(const Options& options) {
  Contender a(options.a, options), b(options.b, options);
  if (a.sizes().source_bytes != b.sizes().source_bytes || a.sizes().scales_bytes != b.sizes().scales_bytes) {
    refuse(options.b.library, "the weight has other bytes than A's", "expected the same format in both");
  }
  const Operands operands(options, a.sizes());
  a.prepare(options, operands);
  b.prepare(options, operands);
  print_product(options);
  std::printf("A: %s\nB: %s\n", a.description().c_str(), b.description().c_str());

  const int64_t elements = options.m * options.n;
  const std::vector<float> of_a = result_of(a, operands, elements, 0xff);
  print_difference(difference_of(of_a, result_of(b, operands, elements, 0xfe)), elements);
  print_times(measure(a, b, options), options);
  return 0;
}

}  // namespace
}  // namespace ompipe::bench

int main(int argc, char** argv) { return ompipe::bench::compare(ompipe::bench::parse_options(argc, argv)); }
