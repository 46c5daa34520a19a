#include "ompipe/kernels/convert.h"

#include <doctest/doctest.h>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("convert");

namespace {

template <class To, class From>
std::vector<To> convert(ElementType from_type, ElementType to_type, const std::vector<From>& from,
                        Isa isa = Isa::scalar) {
  std::vector<To> to(from.size());
  ConvertArguments a{from_type, to_type, from.data(), to.data(), int64_t(from.size())};
  run_tiles(convert_call(a, isa), Order::backward);
  return to;
}

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> result(65536);
  for (size_t i = 0; i < result.size(); ++i) result[i] = uint16_t(i);
  return result;
}

double half_value(uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 0x3FF;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every half becomes its float and comes back, on every ISA") {
  for (Isa isa : {Isa::scalar, best_isa()}) {
    const std::vector<uint16_t> halves = all_halves();
    const std::vector<float> floats = convert<float>(ElementType::f16, ElementType::f32, halves, isa);
    const std::vector<uint16_t> back = convert<uint16_t>(ElementType::f32, ElementType::f16, floats, isa);
    for (size_t i = 0; i < halves.size(); ++i) {
      const bool nan = (i & 0x7C00) == 0x7C00 && (i & 0x3FF) != 0;
      REQUIRE(std::isnan(floats[i]) == nan);
      REQUIRE(back[i] == (nan ? halves[i] | 0x200 : halves[i]));
      if ((i & 0x7C00) != 0x7C00) REQUIRE(double(floats[i]) == half_value(halves[i]));
    }
  }
}

TEST_CASE("float to half rounds to the nearest, ties to even; both ISAs give the same bits") {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x80000000u; bits += 65521) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  for (uint16_t half = 0; half < 0x7BFF; ++half) {  // just around every midpoint
    const float midpoint = float((half_value(half) + half_value(uint16_t(half + 1))) / 2);
    for (float value : {std::nextafter(midpoint, 0.0f), midpoint, std::nextafter(midpoint, kInfinity)}) {
      x.push_back(value);
    }
  }
  const std::vector<uint16_t> scalar = convert<uint16_t>(ElementType::f32, ElementType::f16, x);
  CHECK(scalar == convert<uint16_t>(ElementType::f32, ElementType::f16, x, best_isa()));
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || (scalar[i] & 0x7C00) == 0x7C00) continue;
    const double error = std::abs(double(x[i]) - half_value(scalar[i]));
    for (int step : {-1, 1}) {
      const uint16_t neighbour = uint16_t(scalar[i] + step);
      if ((neighbour & 0x7C00) == 0x7C00 || (neighbour ^ scalar[i]) & 0x8000) continue;
      const double other = std::abs(double(x[i]) - half_value(neighbour));
      REQUIRE((error < other || (error == other && scalar[i] % 2 == 0)));
    }
  }
  CHECK(convert<uint16_t>(ElementType::f32, ElementType::f16, std::vector<float>{65519.9f, 65520, -1e30f}) ==
        std::vector<uint16_t>{0x7BFF, 0x7C00, 0xFC00});
}

TEST_CASE("bfloat16") {
  const std::vector<float> x = {1.0f, 1.00390625f, 1.01171875f, kInfinity, -3.0f, 3.4e38f};
  const std::vector<uint16_t> y = convert<uint16_t>(ElementType::f32, ElementType::bf16, x);
  CHECK(y == std::vector<uint16_t>{0x3F80, 0x3F80, 0x3F82, 0x7F80, 0xC040, 0x7F80});
  CHECK(convert<float>(ElementType::bf16, ElementType::f32, y)[4] == -3.0f);
  CHECK(
      std::isnan(convert<float>(ElementType::bf16, ElementType::f32,
                                convert<uint16_t>(ElementType::f32, ElementType::bf16, std::vector<float>{kNaN}))[0]));
}

TEST_CASE("floats to integers truncate and saturate") {
  const std::vector<float> x = {1.9f, -1.9f, 300, -300, kNaN, kInfinity, -kInfinity, 3e9f, 0x1p31f, 128, 256};
  constexpr int32_t most = std::numeric_limits<int32_t>::max(), least = std::numeric_limits<int32_t>::min();
  CHECK(convert<int32_t>(ElementType::f32, ElementType::i32, x) ==
        std::vector<int32_t>{1, -1, 300, -300, 0, most, least, most, most, 128, 256});
  CHECK(convert<int8_t>(ElementType::f32, ElementType::i8, x) ==
        std::vector<int8_t>{1, -1, 127, -128, 0, 127, -128, 127, 127, 127, 127});
  CHECK(convert<uint8_t>(ElementType::f32, ElementType::u8, x) ==
        std::vector<uint8_t>{1, 0, 255, 0, 0, 255, 0, 255, 255, 128, 255});
  CHECK(
      convert<int64_t>(ElementType::f64, ElementType::i64, std::vector<double>{1e300, -1e300, 4503599627370497.0}) ==
      std::vector<int64_t>{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 4503599627370497});
  CHECK(convert<uint8_t>(ElementType::f32, ElementType::boolean, std::vector<float>{0, -0.0f, 0.5f, kNaN}) ==
        std::vector<uint8_t>{0, 0, 1, 1});
}

TEST_CASE("integers keep their low bits, and nothing converts to nothing") {
  const std::vector<int64_t> x = {-1, 256, (int64_t(1) << 40) + 7};
  CHECK(convert<int32_t>(ElementType::i64, ElementType::i32, x) == std::vector<int32_t>{-1, 256, 7});
  CHECK(convert<uint8_t>(ElementType::i64, ElementType::u8, x) == std::vector<uint8_t>{255, 0, 7});
  CHECK(convert<float>(ElementType::i64, ElementType::f32, x) == std::vector<float>{-1, 256, 1099511627783.0f});
  CHECK(convert<int64_t>(ElementType::boolean, ElementType::i64, std::vector<uint8_t>{1, 0}) ==
        std::vector<int64_t>{1, 0});
  CHECK(convert<int64_t>(ElementType::i8, ElementType::i64, std::vector<int8_t>{-128}) == std::vector<int64_t>{-128});
  CHECK(convert<float>(ElementType::f16, ElementType::f32, std::vector<uint16_t>{}).empty());
}

TEST_SUITE_END();
