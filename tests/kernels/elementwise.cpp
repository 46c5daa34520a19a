#include "ompipe/kernels/elementwise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("elementwise");

namespace {

// Element offset of `index` (row-major, in dims of `shape`) in `tensor` broadcast to shape.
int64_t offset_of(const Layout& shape, const Layout& tensor, int64_t index) {
  int64_t offset = 0;
  for (int i = shape.rank - 1; i >= 0; --i) {
    const int64_t coordinate = index % shape.dims[i];
    index /= shape.dims[i];
    const int at = i - (shape.rank - tensor.rank);
    if (at >= 0 && tensor.dims[at] != 1) offset += coordinate * tensor.strides[at];
  }
  return offset;
}

float naive(BinaryOp op, float a, float b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
    case BinaryOp::pow:
      return float(std::pow(double(a), double(b)));
    case BinaryOp::min:
      return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b);
    default:
      return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b);
  }
}

ElementwiseArguments arguments_for(const Layout& output, std::span<const Layout> layouts, ElementType type) {
  ElementwiseArguments arguments;
  arguments.loop = *make_loop(output, layouts);
  arguments.type = type;
  return arguments;
}

void check_binary(BinaryOp op, const Layout& a, const Layout& b) {
  const Layout inputs[] = {a, b};
  const Layout output = *broadcast_layout(inputs);
  static const std::vector<float> x = random_floats(20000, 1, 0.25f, 4), y = random_floats(20000, 2, -3, 3);
  ElementwiseArguments arguments = arguments_for(output, inputs, ElementType::f32);
  arguments.inputs = {x.data() + 1, y.data() + 3};  // misaligned
  const std::vector<float> got = run_everywhere(poisoned(size_t(output.element_count())), [&](Isa isa, float* to) {
    arguments.output = to;
    return binary_call(op, arguments, isa);
  });
  for (int64_t i = 0; i < output.element_count(); ++i) {
    const float want = naive(op, x[size_t(1 + offset_of(output, a, i))], y[size_t(3 + offset_of(output, b, i))]);
    const float slack = op == BinaryOp::pow ? std::abs(want) * 0x1p-22f : 0.0f;
    REQUIRE(std::abs(got[size_t(i)] - want) <= slack);
  }
}

template <class T>
std::vector<T> integer_binary(BinaryOp op, ElementType type, const std::vector<T>& a, const std::vector<T>& b) {
  const Layout shape = layout({int64_t(a.size())});
  const Layout inputs[] = {shape, shape};
  ElementwiseArguments arguments = arguments_for(shape, inputs, type);
  std::vector<T> result(a.size());
  arguments.output = result.data();
  arguments.inputs = {a.data(), b.data()};
  run_tiles(binary_call(op, arguments, Isa::scalar));
  return result;
}

}  // namespace

TEST_CASE("binary operators broadcast, at sizes around the vector width") {
  for (BinaryOp op :
       {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div, BinaryOp::pow, BinaryOp::min, BinaryOp::max}) {
    for (int64_t n : {0, 1, 7, 8, 9, 17}) {
      check_binary(op, layout({n}), layout({n}));
      check_binary(op, layout({3, n}), layout({n}));
      check_binary(op, layout({3, n}), layout({3, 1}));
      check_binary(op, layout({}), layout({2, n}));
      check_binary(op, layout({2, 1, n}), layout({5, 1}));
    }
  }
}

TEST_CASE("more than one tile, and a transposed operand") {
  check_binary(BinaryOp::add, layout({127, 131}), layout({131}));
  Layout transposed = layout({131, 127});
  transposed.dims = {127, 131};
  transposed.strides = {1, 127};
  check_binary(BinaryOp::sub, layout({127, 131}), transposed);
}

TEST_CASE("min and max of a NaN are NaN, relu keeps it, division follows IEEE") {
  const std::vector<float> a = {kNaN, 1, kInfinity, 1, -1, 0}, b = {1, kNaN, 1, 0, 0, 0};
  const Layout shape = layout({6});
  const Layout inputs[] = {shape, shape};
  ElementwiseArguments arguments = arguments_for(shape, inputs, ElementType::f32);
  arguments.inputs = {a.data(), b.data()};
  const auto run = [&](BinaryOp op) {
    return run_everywhere(poisoned(6), [&](Isa isa, float* to) {
      arguments.output = to;
      return binary_call(op, arguments, isa);
    });
  };
  CHECK(first_difference(run(BinaryOp::min), std::vector<float>{kNaN, kNaN, 1, 0, -1, 0}) == -1);
  CHECK(first_difference(run(BinaryOp::max), std::vector<float>{kNaN, kNaN, kInfinity, 1, 0, 0}) == -1);
  CHECK(first_difference(run(BinaryOp::div), std::vector<float>{kNaN, kNaN, kInfinity, kInfinity, -kInfinity, kNaN}) ==
        -1);
}

TEST_CASE("integer operators wrap and never trap") {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> a = {7, -7, 5, least, most, 2, -1}, b = {2, 2, 0, -1, 1, 70, -3};
  CHECK(integer_binary(BinaryOp::div, ElementType::i64, a, b) == std::vector<int64_t>{3, -3, 0, least, most, 0, 0});
  CHECK(integer_binary(BinaryOp::add, ElementType::i64, a, b) == std::vector<int64_t>{9, -5, 5, most, least, 72, -4});
  CHECK(integer_binary(BinaryOp::pow, ElementType::i64, a, b) == std::vector<int64_t>{49, 49, 1, 0, most, 0, -1});
  CHECK(integer_binary(BinaryOp::min, ElementType::i64, a, b) == std::vector<int64_t>{2, -7, 0, least, 1, 2, -3});
  const std::vector<int32_t> c = {3, std::numeric_limits<int32_t>::min()}, d = {-4, -1};
  CHECK(integer_binary(BinaryOp::mul, ElementType::i32, c, d) ==
        std::vector<int32_t>{-12, std::numeric_limits<int32_t>::min()});
  CHECK(integer_binary(BinaryOp::max, ElementType::i32, c, d) == std::vector<int32_t>{3, -1});
}

TEST_CASE("comparisons write booleans, where takes by them") {
  const std::vector<float> a = {1, 2, kNaN, 4}, b = {1, 3, kNaN, 3};
  const Layout shape = layout({4}), scalar = layout({});
  const Layout pair[] = {shape, shape};
  ElementwiseArguments compare = arguments_for(shape, pair, ElementType::f32);
  std::vector<uint8_t> flags(4);
  compare.output = flags.data();
  compare.inputs = {a.data(), b.data()};
  run_tiles(binary_call(BinaryOp::equal, compare, best_isa()));
  CHECK(flags == std::vector<uint8_t>{1, 0, 0, 0});
  run_tiles(binary_call(BinaryOp::less, compare, best_isa()));
  CHECK(flags == std::vector<uint8_t>{0, 1, 0, 0});
  run_tiles(binary_call(BinaryOp::greater, compare, best_isa()));
  CHECK(flags == std::vector<uint8_t>{0, 0, 0, 1});
  const std::vector<int64_t> x = {10, 20, 30, 40}, fill = {-1};
  const Layout three[] = {shape, shape, scalar};
  ElementwiseArguments choose = arguments_for(shape, three, ElementType::i64);
  std::vector<int64_t> chosen(4);
  choose.output = chosen.data();
  choose.inputs = {flags.data(), x.data(), fill.data()};
  run_tiles(where_call(choose));
  CHECK(chosen == std::vector<int64_t>{-1, -1, -1, 40});
}

TEST_CASE("integer and boolean unary operators") {
  const std::vector<int32_t> x = {-3, 0, 5, std::numeric_limits<int32_t>::min()};
  const Layout shape = layout({4});
  ElementwiseArguments arguments = arguments_for(shape, {&shape, 1}, ElementType::i32);
  std::vector<int32_t> y(4);
  arguments.output = y.data();
  arguments.inputs[0] = x.data();
  run_tiles(unary_call(UnaryOp::abs, arguments, Isa::scalar));
  CHECK(y == std::vector<int32_t>{3, 0, 5, x[3]});
  run_tiles(unary_call(UnaryOp::relu, arguments, Isa::scalar));
  CHECK(y == std::vector<int32_t>{0, 0, 5, 0});
  const std::vector<uint8_t> flags = {0, 1, 1, 0};
  std::vector<uint8_t> inverse(4);
  arguments.type = ElementType::boolean;
  arguments.output = inverse.data();
  arguments.inputs[0] = flags.data();
  run_tiles(unary_call(UnaryOp::logical_not, arguments, Isa::scalar));
  CHECK(inverse == std::vector<uint8_t>{1, 0, 0, 1});
  CHECK_FALSE(supports(UnaryOp::exp, ElementType::i64));
  CHECK_FALSE(supports(UnaryOp::logical_not, ElementType::f32));
  CHECK_FALSE(supports(BinaryOp::add, ElementType::f16));
  CHECK(supports(BinaryOp::equal, ElementType::boolean));
}

TEST_CASE("exact unary operators equal the C library") {
  const std::vector<float> x = random_floats(1003, 5, 0, 50);
  const Layout shape = layout({1003});
  ElementwiseArguments arguments = arguments_for(shape, {&shape, 1}, ElementType::f32);
  arguments.inputs[0] = x.data();
  const auto run = [&](UnaryOp op) {
    return run_everywhere(poisoned(1003), [&](Isa isa, float* to) {
      arguments.output = to;
      return unary_call(op, arguments, isa);
    });
  };
  const std::vector<float> root = run(UnaryOp::sqrt), inverse = run(UnaryOp::reciprocal), minus = run(UnaryOp::neg);
  for (size_t i = 0; i < x.size(); ++i) {
    REQUIRE(root[i] == std::sqrt(x[i]));
    REQUIRE(inverse[i] == 1.0f / x[i]);
    REQUIRE(minus[i] == -x[i]);
  }
}

TEST_CASE("copy transposes, expands, slices backwards and fills, for every element size") {
  const auto check = [](auto zero, ElementType type) {
    using T = decltype(zero);
    std::vector<T> from(24);
    std::iota(from.begin(), from.end(), T(1));
    Layout turned = layout({2, 3, 4});  // seen as [4, 3, 2]
    turned.dims = {4, 3, 2};
    turned.strides = {1, 4, 12};
    Layout backwards = layout({24});
    backwards.strides[0] = -1;
    const Layout scalar = layout({});
    const auto run = [&](const Layout& output, const Layout& input, int64_t first) {
      ElementwiseArguments arguments = arguments_for(output, {&input, 1}, type);
      std::vector<T> to(size_t(output.element_count()));
      arguments.output = to.data();
      arguments.inputs[0] = from.data() + first;
      run_tiles(copy_call(arguments));
      return to;
    };
    const std::vector<T> transposed = run(layout({4, 3, 2}), turned, 0);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 3; ++j) {
        for (int k = 0; k < 2; ++k) CHECK(transposed[size_t(i * 6 + j * 2 + k)] == from[size_t(k * 12 + j * 4 + i)]);
      }
    }
    std::vector<T> reversed = from;
    std::reverse(reversed.begin(), reversed.end());
    CHECK(run(layout({24}), backwards, 23) == reversed);
    CHECK(run(layout({2, 5}), scalar, 6) == std::vector<T>(10, T(7)));
    CHECK(run(layout({0, 5}), scalar, 6).empty());
  };
  check(uint8_t(), ElementType::boolean);
  check(uint16_t(), ElementType::f16);
  check(float(), ElementType::f32);
  check(int64_t(), ElementType::i64);
}

TEST_CASE("range") {
  const int64_t start = 5, delta = -2;
  std::vector<int64_t> to(4);
  fill_range(ElementType::i64, &start, &delta, 4, to.data());
  CHECK(to == std::vector<int64_t>{5, 3, 1, -1});
  const float first = 0.5f, step = 0.25f;
  std::vector<float> floats(3);
  fill_range(ElementType::f32, &first, &step, 3, floats.data());
  CHECK(floats == std::vector<float>{0.5f, 0.75f, 1.0f});
  const int32_t minus = -3, one = 1;
  std::vector<int32_t> ints(2);
  fill_range(ElementType::i32, &minus, &one, 2, ints.data());
  CHECK(ints == std::vector<int32_t>{-3, -2});
}

TEST_SUITE_END();
