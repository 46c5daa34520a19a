// Accuracy of exp, sigmoid, erf, tanh and both forms of gelu against double, over the floats.
#include <doctest/doctest.h>

#include <functional>

#include "ompipe/kernels/elementwise.h"
#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("vector_math");

namespace {

std::vector<float> unary(UnaryOp op, const std::vector<float>& x) {
  ElementwiseArguments arguments;
  const Layout shape = layout({int64_t(x.size())});
  arguments.loop = *make_loop(shape, {&shape, 1});
  arguments.inputs[0] = x.data();
  return run_everywhere(poisoned(x.size()), [&](Isa isa, float* output) {
    arguments.output = output;
    return unary_call(op, arguments, isa);
  });
}

// Every float with the given step in its bits, both signs, infinities included.
std::vector<float> sample_floats(uint32_t step) {
  std::vector<float> result;
  for (uint32_t bits = 0; bits <= 0x7F800000u; bits += step) {
    result.push_back(std::bit_cast<float>(bits));
    result.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  result.push_back(kInfinity);
  result.push_back(-kInfinity);
  return result;
}

// Distance in units of the last place of the exact result, of the least subnormal at least.
double error_ulp(float got, double exact) {
  if (std::isinf(got) && std::abs(exact) >= 0x1.FFFFFFp127) return std::signbit(got) == std::signbit(exact) ? 0 : 1e9;
  const int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return std::abs(double(got) - exact) / std::ldexp(1.0, exponent - 23);
}

double worst_ulp(UnaryOp op, const std::function<double(double)>& exact) {
  const std::vector<float> x = sample_floats(9973);
  const std::vector<float> y = unary(op, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, error_ulp(y[i], exact(x[i])));
  return worst;
}

}  // namespace

TEST_CASE("exp is within 1 ulp") {
  CHECK(worst_ulp(UnaryOp::exp, [](double x) { return std::exp(x); }) <= 1.0);
}

TEST_CASE("sigmoid is within 2 ulp") {
  CHECK(worst_ulp(UnaryOp::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }) <= 2.0);
}

TEST_CASE("erf is within 1 ulp") {
  CHECK(worst_ulp(UnaryOp::erf, [](double x) { return std::erf(x); }) <= 1.0);
}

TEST_CASE("tanh is within 1.5 ulp") {
  CHECK(worst_ulp(UnaryOp::tanh, [](double x) { return std::tanh(x); }) <= 1.5);
}

TEST_CASE("gelu errs by 2^-23 of |x| at most") {
  const std::vector<float> x = random_floats(20000, 1, -12, 12);
  const std::vector<float> y = unary(UnaryOp::gelu, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = 0.5 * double(x[i]) * std::erfc(-double(x[i]) / std::sqrt(2.0));
    REQUIRE(std::abs(double(y[i]) - exact) <= 0x1p-23 * std::abs(double(x[i])));
  }
}

TEST_CASE("gelu by tanh errs by 2^-23 of |x| at most, and is not the exact form") {
  const std::vector<float> x = random_floats(20000, 2, -12, 12);
  const std::vector<float> y = unary(UnaryOp::gelu_tanh, x), other = unary(UnaryOp::gelu, x);
  double apart = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = double(x[i]), root = std::sqrt(2 / std::acos(-1.0));
    const double exact = 0.5 * v * (1 + std::tanh(root * (v + 0.044715 * v * v * v)));
    REQUIRE(std::abs(double(y[i]) - exact) <= 0x1p-23 * std::abs(v));
    apart = std::max(apart, std::abs(double(y[i]) - double(other[i])));
  }
  CHECK(apart > 4e-4);  // the approximation's own greatest error is 4.7e-4
}

TEST_CASE("NaN stays NaN") {
  for (UnaryOp op : {UnaryOp::exp, UnaryOp::sigmoid, UnaryOp::erf, UnaryOp::tanh, UnaryOp::gelu, UnaryOp::gelu_tanh,
                     UnaryOp::sqrt, UnaryOp::relu, UnaryOp::neg, UnaryOp::abs, UnaryOp::reciprocal}) {
    for (float y : unary(op, {kNaN, -kNaN, kNaN})) CHECK(std::isnan(y));
  }
}

TEST_SUITE_END();
