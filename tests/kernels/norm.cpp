#include "ompipe/kernels/norm.h"

#include <doctest/doctest.h>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("norm");

namespace {

constexpr int64_t kColumns[] = {1, 7, 8, 9, 31, 32, 33, 40, 63, 384, 896, 2051};

// Rounding of a sum of n like-signed terms in 32 lanes, then of the few steps behind it.
double relative_bound(int64_t columns) { return kEpsilon * (double(columns) / 32 + 16); }

}  // namespace

TEST_CASE("RMS norm with and without skip, bias and sum equals double") {
  for (int64_t columns : kColumns) {
    for (int form = 0; form < 8; ++form) {
      const int64_t rows = 5;
      const size_t count = size_t(rows * columns);
      const std::vector<float> x = random_floats(count + 1, 1), skip = random_floats(count, 2);
      const std::vector<float> bias = random_floats(size_t(columns), 3), gain = random_floats(size_t(columns), 4);
      std::vector<float> sum(count);
      RmsNormArguments a;
      a.x = x.data() + 1;
      a.skip = form & 1 ? skip.data() : nullptr;
      a.bias = form & 2 ? bias.data() : nullptr;
      a.sum = form & 4 ? sum.data() : nullptr;
      a.gain = gain.data();
      a.rows = rows;
      a.columns = columns;
      a.epsilon = 1e-6f;
      const std::vector<float> y = run_everywhere(poisoned(count), [&](Isa isa, float* to) {
        a.y = to;
        return rms_norm_call(a, isa);
      });
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<float> s(static_cast<size_t>(columns));
        double squares = 0;
        for (int64_t i = 0; i < columns; ++i) {
          const size_t at = size_t(r * columns + i);
          float value = a.x[at];
          if (a.skip != nullptr) value += skip[at];
          if (a.bias != nullptr) value += bias[size_t(i)];
          s[size_t(i)] = value;
          squares += double(value) * double(value);
          if (a.sum != nullptr) REQUIRE(sum[at] == value);
        }
        for (int64_t i = 0; i < columns; ++i) {
          const double want = double(s[size_t(i)]) / std::sqrt(squares / double(columns) + 1e-6) * gain[size_t(i)];
          REQUIRE(std::abs(y[size_t(r * columns + i)] - want) <= std::abs(want) * relative_bound(columns));
        }
      }
    }
  }
}

TEST_CASE("layer norm with and without bias equals double") {
  for (int64_t columns : kColumns) {
    for (bool with_bias : {false, true}) {
      const int64_t rows = 3;
      const size_t count = size_t(rows * columns);
      const std::vector<float> x = random_floats(count, 1, -1, 3);
      const std::vector<float> bias = random_floats(size_t(columns), 3), gain = random_floats(size_t(columns), 4);
      LayerNormArguments a;
      a.x = x.data();
      a.gain = gain.data();
      a.bias = with_bias ? bias.data() : nullptr;
      a.rows = rows;
      a.columns = columns;
      a.epsilon = 1e-5f;
      const std::vector<float> y = run_everywhere(poisoned(count), [&](Isa isa, float* to) {
        a.y = to;
        return layer_norm_call(a, isa);
      });
      for (int64_t r = 0; r < rows; ++r) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < columns; ++i) mean += x[size_t(r * columns + i)] / double(columns);
        for (int64_t i = 0; i < columns; ++i) {
          variance += std::pow(x[size_t(r * columns + i)] - mean, 2) / double(columns);
        }
        const double factor = 1 / std::sqrt(variance + 1e-5);
        for (int64_t i = 0; i < columns; ++i) {
          const double shift = with_bias ? bias[size_t(i)] : 0.0;
          const double normal = (x[size_t(r * columns + i)] - mean) * factor;
          const double scale = std::abs(gain[size_t(i)]) * (std::abs(normal) + 3 * factor) + std::abs(shift);
          REQUIRE(std::abs(y[size_t(r * columns + i)] - (normal * gain[size_t(i)] + shift)) <=
                  scale * relative_bound(columns));
        }
      }
    }
  }
}

TEST_CASE("in place, many tiles, no rows, no columns, NaN, infinity") {
  const int64_t rows = 100, columns = 896;
  std::vector<float> x = random_floats(size_t(rows * columns), 1);
  x[896 * 7 + 3] = kNaN;
  const int64_t infinite = 896 * 9 + 3;  // the rest of its row is divided by it
  x[size_t(infinite)] = kInfinity;
  const std::vector<float> gain = random_floats(size_t(columns), 2);
  RmsNormArguments a;
  a.gain = gain.data();
  a.rows = rows;
  a.columns = columns;
  a.x = x.data();
  const std::vector<float> apart = run_everywhere(poisoned(x.size()), [&](Isa isa, float* to) {
    a.y = to;
    return rms_norm_call(a, isa);
  });
  const std::vector<float> in_place = run_everywhere(x, [&](Isa isa, float* to) {
    a.x = a.y = to;
    return rms_norm_call(a, isa);
  });
  CHECK(first_difference(apart, in_place) == -1);
  for (int64_t i = 0; i < rows * columns; ++i) {
    REQUIRE(std::isnan(apart[size_t(i)]) == (i / columns == 7 || i == infinite));
    if (i / columns == 9 && i != infinite) REQUIRE(apart[size_t(i)] == 0);
  }
  a.rows = 0;
  CHECK(rms_norm_call(a, Isa::scalar).tile_counts[0] == 0);
  a.rows = 4;
  a.columns = 0;
  CHECK(rms_norm_call(a, Isa::scalar).tile_counts[0] == 0);
}

TEST_SUITE_END();
