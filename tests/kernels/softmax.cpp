#include "ompipe/kernels/softmax.h"

#include <doctest/doctest.h>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("softmax");

namespace {

std::vector<float> softmax(const std::vector<float>& x, int64_t outer, int64_t axis, int64_t inner) {
  SoftmaxArguments a;
  a.outer = outer;
  a.axis = axis;
  a.inner = inner;
  const std::vector<float> apart = run_everywhere(poisoned(x.size()), [&](Isa isa, float* to) {
    a.x = x.data();
    a.y = to;
    return softmax_call(a, isa);
  });
  const std::vector<float> in_place = run_everywhere(x, [&](Isa isa, float* to) {
    a.x = a.y = to;
    return softmax_call(a, isa);
  });
  CHECK(first_difference(apart, in_place) == -1);
  return apart;
}

void check_against_double(int64_t outer, int64_t axis, int64_t inner) {
  const std::vector<float> x = random_floats(size_t(outer * axis * inner), 3, -20, 20);
  const std::vector<float> y = softmax(x, outer, axis, inner);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t k) { return size_t((o * axis + k) * inner + i); };
      double largest = -1e30, sum = 0;
      for (int64_t k = 0; k < axis; ++k) largest = std::max(largest, double(x[at(k)]));
      for (int64_t k = 0; k < axis; ++k) sum += std::exp(double(x[at(k)]) - largest);
      for (int64_t k = 0; k < axis; ++k) {
        const double want = std::exp(double(x[at(k)]) - largest) / sum;
        // x - max is rounded once, relative to up to 40; then exp, the sum's chain, one division and one product.
        REQUIRE(std::abs(y[at(k)] - want) <= want * kEpsilon * (40 + 8 + double(axis)) + 0x1p-149);
      }
    }
  }
}

}  // namespace

TEST_CASE("any axis equals double") {
  for (int64_t axis : {1, 2, 7, 8, 9, 33, 100}) {
    for (int64_t inner : {1, 2, 8, 13}) check_against_double(3, axis, inner);
  }
  check_against_double(300, 128, 1);
}

TEST_CASE("infinities and NaN as x - max(x) gives them, and nothing at all") {
  const std::vector<float> masked = softmax({-kInfinity, 0, -kInfinity, 0}, 1, 4, 1);
  CHECK(masked == std::vector<float>{0, 0.5f, 0, 0.5f});
  for (float value : softmax({1, kNaN, 2}, 1, 3, 1)) CHECK(std::isnan(value));
  for (float value : softmax({-kInfinity, -kInfinity}, 1, 2, 1)) CHECK(std::isnan(value));
  const std::vector<float> columns = softmax({1, kNaN, 1, 2}, 1, 2, 2);
  CHECK(columns[0] == 0.5f);
  CHECK(std::isnan(columns[1]));
  CHECK(softmax({}, 0, 5, 1).empty());
  CHECK(softmax({}, 5, 0, 1).empty());
}

TEST_SUITE_END();
