// DynamicQuantizeLinear against its definition in double precision, at lengths around vectors and tiles.
#include "ompipe/kernels/quantize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "matmul_fixture.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("quantize");

namespace {

struct Quantized {
  std::vector<uint8_t> y;
  float scale = -1;
  uint8_t zero_point = 99;
  bool operator==(const Quantized&) const = default;
};

// x starts at an odd float; y has a guard of 0x5a behind it.
Quantized quantize(const std::vector<float>& x, Isa isa, bool reverse = false) {
  std::vector<float> shifted(1, std::numeric_limits<float>::quiet_NaN());
  shifted.insert(shifted.end(), x.begin(), x.end());
  Quantized result;
  result.y.assign(x.size() + 16, 0x5a);
  const int64_t count = static_cast<int64_t>(x.size());
  Buffer shared(dynamic_quantize_scratch_bytes(count));
  DynamicQuantizeArguments a = {shifted.data() + 1, count,          result.y.data(), &result.scale,
                                &result.zero_point, shared.floats()};
  const TiledCall call = dynamic_quantize_call(a, isa);
  for (int phase = 0; phase < call.phase_count; ++phase) {
    const int64_t tiles = call.tile_counts[phase];
    for (int64_t i = 0; i < tiles; ++i) call.run(phase, reverse ? tiles - 1 - i : i, nullptr);
  }
  CHECK(shared.guard_intact());
  for (size_t i = x.size(); i < result.y.size(); ++i) CHECK(result.y[i] == 0x5a);
  result.y.resize(x.size());
  return result;
}

// A step is rounded once and its scale is a rounded quotient: an element may fall the other way only if it lies within
// a few roundings of half a step.
void check_against_definition(const std::vector<float>& x, const Quantized& got) {
  double lowest = 0, highest = 0;
  for (float value : x) lowest = std::min(lowest, double(value)), highest = std::max(highest, double(value));
  const double scale = lowest == highest ? 1 : (highest - lowest) / 255;
  CHECK(std::fabs(got.scale - scale) <= scale * 0x1p-23);
  CHECK(std::fabs(got.zero_point + lowest / scale) <= 0.5 + 255 * 0x1p-21);
  int wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::clamp(x[i] / scale + got.zero_point, 0.0, 255.0);
    wrong += !(std::fabs(got.y[i] - exact) <= 0.5 + 255 * 0x1p-21);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every length around vectors and tiles, both signs and one") {
  std::mt19937 random(1);
  for (int64_t count : {1, 2, 7, 8, 9, 63, 16383, 16384, 16385, 40000}) {
    CAPTURE(count);
    for (float shift : {0.0f, 1.5f, -1.5f}) {
      std::vector<float> x = random_floats(count, random);
      for (float& value : x) value += shift;
      const Quantized scalar = quantize(x, Isa::scalar);
      check_against_definition(x, scalar);
      for (Isa isa : isas()) {
        CHECK(quantize(x, isa) == scalar);
        CHECK(quantize(x, isa, true) == scalar);
      }
    }
  }
}

TEST_CASE("by hand: halves go to the even number, the bounds are met, zeros have a scale of 1") {
  for (Isa isa : isas()) {
    const Quantized steps = quantize({0, 255, 0.5f, 1.5f, 2.5f, 254.5f}, isa);
    CHECK(steps.scale == 1.0f);
    CHECK(steps.zero_point == 0);
    CHECK(steps.y == std::vector<uint8_t>{0, 255, 0, 2, 2, 254});
    const Quantized both = quantize({-128, 127, -0.5f, -1.5f}, isa);
    CHECK(both.zero_point == 128);
    CHECK(both.y == std::vector<uint8_t>{0, 255, 128, 126});
    const Quantized negative = quantize({-510, -255}, isa);
    CHECK(negative.scale == 2.0f);
    CHECK(negative.zero_point == 255);
    CHECK(negative.y == std::vector<uint8_t>{0, 127});  // -127.5 goes to -128
    CHECK(quantize({0, 0, 0}, isa) == Quantized{{0, 0, 0}, 1.0f, 0});
    CHECK(quantize({}, isa) == Quantized{{}, 1.0f, 0});
    CHECK(quantize({1e-44f}, isa) == Quantized{{0}, 1.0f, 0});      // a 255th of it is 0
    CHECK(quantize({1e-42f}, isa).y == std::vector<uint8_t>{238});  // 714 steps of 2^-149: the scale is 3 of them
    CHECK(std::isinf(quantize({3e38f, -3e38f}, isa).scale));
  }
}

TEST_CASE("a NaN counts for no bound and gives 0; infinity gives an infinite scale") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  for (Isa isa : isas()) {
    const Quantized some = quantize({nan, -1, 254, nan}, isa);
    CHECK(some.scale == 1.0f);
    CHECK(some.zero_point == 1);
    CHECK(some.y == std::vector<uint8_t>{0, 0, 255, 0});
    CHECK(quantize({1, infinite}, isa).scale == infinite);
    CHECK(quantize({1, -infinite, 2, 3, 4, 5, 6, 7, 8}, isa) ==
          quantize({1, -infinite, 2, 3, 4, 5, 6, 7, 8}, Isa::scalar));
  }
}

TEST_SUITE_END();
