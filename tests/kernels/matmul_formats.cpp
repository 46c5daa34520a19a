// Weights of 2, 4 and 8 bits with every kind of zero point and scale, and float16 activations: the stated chain bit for
// bit, and the product in double precision within the bound that the roundings give.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "matmul_fixture.h"
#include "ompipe/kernels/matmul.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("matmul_formats");

namespace {

constexpr double kEps = std::numeric_limits<float>::epsilon();

uint16_t half_bits(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

// m rows of A and a bias, as floats and as they lie in memory: A at an odd element, NaN between its rows.
struct Operands {
  Operands(const MatMulSpec& spec, int64_t rows, ElementType element_type, uint32_t seed)
      : m(rows), type(element_type), lda(spec.k + 3) {
    std::mt19937 random(seed);
    const auto draw = [&](int64_t count) {
      std::vector<float> values = random_floats(count, random);
      if (type == ElementType::f16) {
        for (float& value : values) value = half_value(random_half(random));
      }
      return values;
    };
    a = draw(m * spec.k);
    bias = draw(spec.n);
    const int64_t bytes = int64_t(element_bytes(type));
    a_bytes.assign((1 + m * lda) * bytes, std::byte{0xff});
    for (int64_t row = 0; row < m; ++row)
      put(a.data() + row * spec.k, spec.k, a_bytes.data() + (1 + row * lda) * bytes);
    bias_bytes.resize(spec.n * bytes);
    put(bias.data(), spec.n, bias_bytes.data());
  }

  void put(const float* from, int64_t count, std::byte* to) const {
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t half = half_bits(from[i]);
      if (type == ElementType::f16) {
        std::memcpy(to + 2 * i, &half, 2);
      } else {
        std::memcpy(to + 4 * i, from + i, 4);
      }
    }
  }

  int64_t m;
  ElementType type;
  int64_t lda;
  std::vector<float> a, bias;
  std::vector<std::byte> a_bytes, bias_bytes;
};

// out[m, N + 2], in bytes; what the kernels must not touch stays 0x5a.
std::vector<std::byte> compute(const Weights& weights, const Operands& operands, Isa isa, bool with_bias,
                               Order order = Order::forward, const Tuning& tuning = {}) {
  const PackedLayout layout = make_layout(weights.spec, isa, tuning).value();
  const Buffer packed = pack(layout, weights);
  const int64_t bytes = int64_t(element_bytes(operands.type)), n = weights.spec.n;
  std::vector<std::byte> out(operands.m * (n + 2) * bytes, std::byte{0x5a});
  MatMulArgs args;
  args.type = operands.type;
  args.layout = &layout;
  args.packed = packed.data();
  args.m = operands.m;
  args.a = operands.a_bytes.data() + bytes;
  args.lda = operands.lda;
  args.out = out.data();
  args.ldc = n + 2;
  if (with_bias) args.c = operands.bias_bytes.data();
  run(args, order);
  return out;
}

bool is_integer(const MatMulSpec& spec) { return spec.format == WeightFormat::nbits && spec.accuracy_level == 4; }

// How far a product of `a` and column n may lie from the exact one: K + 3 roundings of float32 and, at level 4, half a
// step of every quantised activation.
struct Bounded {
  double exact = 0, bound = 0;
};
Bounded bounded(const Weights& weights, const float* a, int64_t n) {
  const MatMulSpec& spec = weights.spec;
  Bounded result;
  double magnitude = 0;
  const int64_t unit = std::min(spec.block, 32);
  double unit_largest = 0;
  for (int64_t k = 0; k < spec.k; ++k) {
    double weight = weights.values[k * spec.n + n], share = std::fabs(weight);
    if (spec.format == WeightFormat::nbits) {
      const double scale = weights.block_scales[k / spec.block * spec.n + n],
                   zero_point = weights.block_zeros[k / spec.block * spec.n + n];
      weight = (weights.quants[k * spec.n + n] - zero_point) * scale;
      share = (weights.quants[k * spec.n + n] + std::fabs(zero_point)) * std::fabs(scale);
    }
    result.exact += double(a[k]) * weight;
    double largest = std::fabs(a[k]);
    if (is_integer(spec)) {
      if (k % unit == 0) {
        unit_largest = 0;
        for (int64_t i = k; i < std::min(k + unit, spec.k); ++i) {
          unit_largest = std::max(unit_largest, double(std::fabs(a[i])));
        }
      }
      largest = unit_largest;
      result.bound += largest / 127 * 0.50001 * std::fabs(weight);
    }
    magnitude += largest * share;
  }
  result.bound += magnitude * double(spec.k + 3) * kEps / 2 + 1e-42;
  return result;
}

// What the outputs must be, row by row.
struct Expected {
  Expected(const Weights& weights, const Operands& operands, bool with_bias) {
    const MatMulSpec& spec = weights.spec;
    for (int64_t i = 0; i < operands.m * spec.n; ++i) {
      const float* a = operands.a.data() + i / spec.n * spec.k;
      const int64_t n = i % spec.n;
      values.push_back(is_integer(spec) ? integer_chain(weights, a, n) : chain(weights, a, n));
      near.push_back(bounded(weights, a, n));
      if (!with_bias) continue;
      values.back() += operands.bias[n];
      near.back().exact += operands.bias[n];
      near.back().bound += std::fabs(near.back().exact) * kEps / 2;
    }
  }
  std::vector<float> values;
  std::vector<Bounded> near;
};

// The number of elements of `out` that aren't the chain's, plus those too far from the exact product, plus those
// touched in vain.
int count_wrong(const MatMulSpec& spec, const Operands& operands, const std::vector<std::byte>& out,
                const Expected& all_expected) {
  const bool half = operands.type == ElementType::f16;
  int wrong = 0;
  for (int64_t m = 0; m < operands.m; ++m) {
    for (int64_t n = 0; n < spec.n + 2; ++n) {
      const std::byte* at = out.data() + (m * (spec.n + 2) + n) * int64_t(element_bytes(operands.type));
      if (n >= spec.n) {
        for (size_t i = 0; i < element_bytes(operands.type); ++i) wrong += at[i] != std::byte{0x5a};
        continue;
      }
      const float expected = all_expected.values[m * spec.n + n];
      Bounded near = all_expected.near[m * spec.n + n];
      float got = 0;
      if (half) {
        uint16_t bits;
        std::memcpy(&bits, at, 2);
        wrong += bits != half_bits(expected);
        got = half_value(bits);
        near.bound += std::ldexp(std::fabs(near.exact) + near.bound, -11) + 0x1p-25;
        if (std::fabs(near.exact) > 65504 || (bits & 0x7c00) == 0x7c00)
          continue;  // overflows to infinity, as it should
      } else {
        std::memcpy(&got, at, 4);
        wrong += got != expected;
      }
      wrong += !(std::fabs(got - near.exact) <= near.bound);
    }
  }
  return wrong;
}

constexpr Tuning kShortStrips = {.rows = 24, .strip_k = 64};

void check(const MatMulSpec& spec, ElementType type, std::initializer_list<int64_t> rows, bool with_bias) {
  CAPTURE(static_cast<int>(spec.format));
  CAPTURE(spec.bits);
  CAPTURE(spec.block);
  CAPTURE(spec.accuracy_level);
  CAPTURE(static_cast<int>(spec.zero_points));
  CAPTURE(spec.k);
  CAPTURE(spec.n);
  const Weights weights = make_weights(spec, static_cast<uint32_t>(spec.k * 131 + spec.n));
  for (int64_t m : rows) {
    CAPTURE(m);
    const Operands operands(spec, m, type, static_cast<uint32_t>(m));
    const Expected expected(weights, operands, with_bias);
    for (Isa isa : isas()) {
      CAPTURE(isa_name(isa));
      CHECK(count_wrong(spec, operands, compute(weights, operands, isa, with_bias), expected) == 0);
      if (spec.k <= kShortStrips.strip_k) continue;
      const auto in_strips = compute(weights, operands, isa, with_bias, Order::forward, kShortStrips);
      CHECK(count_wrong(spec, operands, in_strips, expected) == 0);
    }
  }
}

constexpr ZeroPoints kZeroPoints[] = {ZeroPoints::none, ZeroPoints::packed, ZeroPoints::f32, ZeroPoints::f16};

}  // namespace

TEST_CASE("2, 4 and 8 bits with every block, level and kind of zero point") {
  for (int bits : {2, 4, 8}) {
    for (int block : {16, 32, 64, 128, 256}) {
      for (int level : {0, 4}) {
        for (ZeroPoints zero_points : kZeroPoints) {
          MatMulSpec spec = {.format = WeightFormat::nbits, .bits = bits, .block = block, .accuracy_level = level};
          spec.zero_points = zero_points;
          // K that ends inside a block, one block more than whole bytes of zero points, and whole blocks.
          for (int64_t k : {int64_t{7}, int64_t{block * 4 + 1}, int64_t{block * 2}}) {
            for (int64_t n : {1, 8, 19}) {
              spec.k = k, spec.n = n;
              spec.scale_type = n == 8 ? ScaleType::f16 : ScaleType::f32;
              spec.half_scales = n == 19 && zero_points == ZeroPoints::packed;
              check(spec, ElementType::f32, {1, 2, 7}, n == 19);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("float16 activations, bias and outputs, with every format") {
  for (int64_t k : {1, 8, 39, 200}) {
    for (int64_t n : {1, 8, 37}) {
      for (WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
        check({.format = format, .k = k, .n = n, .trans_b = n == 8}, ElementType::f16, {1, 3, 8}, n != 8);
      }
      for (int bits : {2, 4, 8}) {
        for (int level : {0, 4}) {
          check({.format = WeightFormat::nbits,
                 .k = k,
                 .n = n,
                 .bits = bits,
                 .block = n == 8 ? 16 : 64,
                 .accuracy_level = level,
                 .zero_points = level == 0 ? ZeroPoints::f16 : ZeroPoints::packed,
                 .scale_type = ScaleType::f16},
                ElementType::f16, {1, 3, 8}, n != 8);
        }
      }
    }
  }
}

TEST_CASE("many tiles in any order, of 8 and 2 bits and with float16 activations") {
  for (int bits : {2, 8}) {
    for (int level : {0, 4}) {
      const MatMulSpec spec = {
          .format = WeightFormat::nbits, .k = 300, .n = 130, .bits = bits, .block = 32, .accuracy_level = level};
      const Weights weights = make_weights(spec, 5);
      for (ElementType type : {ElementType::f32, ElementType::f16}) {
        const Operands operands(spec, 101, type, 6);
        const std::vector<std::byte> forward = compute(weights, operands, best_isa(), false);
        CHECK(count_wrong(spec, operands, forward, Expected(weights, operands, false)) == 0);
        CHECK(compute(weights, operands, best_isa(), false, Order::reverse) == forward);
        CHECK(compute(weights, operands, best_isa(), false, Order::shuffled) == forward);
      }
    }
  }
}

TEST_CASE("the largest elements times the largest activations neither saturate nor wrap") {
  for (int bits : {2, 4, 8}) {
    for (int block : {16, 256}) {
      const MatMulSpec spec = {.format = WeightFormat::nbits,
                               .k = 256,
                               .n = 9,
                               .bits = bits,
                               .block = block,
                               .accuracy_level = 4,
                               .zero_points = ZeroPoints::packed};
      Weights weights = make_weights(spec, 7);
      const int largest = (1 << bits) - 1;
      std::fill(weights.b.begin(), weights.b.end(), std::byte{0xff});
      std::fill(weights.zero_points.begin(), weights.zero_points.end(), std::byte{0});
      std::fill(weights.block_zeros.begin(), weights.block_zeros.end(), 0.0f);
      std::fill(weights.quants.begin(), weights.quants.end(), largest);
      for (int64_t i = 0; i < spec.k * spec.n; ++i) {
        weights.values[i] = float(largest) * weights.block_scales[i / spec.n / block * spec.n + i % spec.n];
      }
      Operands operands(spec, 3, ElementType::f32, 8);
      for (int64_t k = 0; k < spec.k; ++k) {
        operands.a[k] = 1, operands.a[spec.k + k] = -1, operands.a[2 * spec.k + k] = k % 2 == 0 ? 1.0f : -1.0f;
      }
      for (int64_t row = 0; row < 3; ++row) {
        operands.put(operands.a.data() + row * spec.k, spec.k, operands.a_bytes.data() + (1 + row * operands.lda) * 4);
      }
      const Expected expected(weights, operands, false);
      for (Isa isa : isas()) {
        CHECK(count_wrong(spec, operands, compute(weights, operands, isa, false), expected) == 0);
      }
    }
  }
}

TEST_CASE("scales that are float16 exactly are told, and packed so they give the same bits in fewer bytes") {
  const float fit[] = {0.0f, -0.0f, 1.0f, -65504.0f, 0x1p-24f, std::numeric_limits<float>::infinity()};
  CHECK(scales_fit_half(fit, 6));
  for (float unfit : {65520.0f, 0x1p-25f, 1.0f + 0x1p-11f, std::numeric_limits<float>::quiet_NaN(), 1e-30f}) {
    const float scales[] = {1.0f, unfit};
    CHECK_FALSE(scales_fit_half(scales, 2));
    CHECK(scales_fit_half(scales, 1));
  }
  // Every finite float16, then what is next to it, wherever it stands among others.
  std::vector<float> all;
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if ((half & 0x7FFF) < 0x7C00) all.push_back(half_value(uint16_t(half)));
  }
  CHECK(scales_fit_half(all.data(), int64_t(all.size())));
  for (size_t i = 0; i < all.size(); i += 61) {
    const float kept = all[i];
    all[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(kept) + (i % 2 == 0 ? 1 : 0x1000));
    CHECK_FALSE(scales_fit_half(all.data(), int64_t(all.size())));
    all[i] = kept;
  }
  MatMulSpec spec = {.format = WeightFormat::nbits, .k = 96, .n = 24, .accuracy_level = 4, .half_scales = true};
  Weights weights = make_weights(spec, 9);
  REQUIRE(scales_fit_half(reinterpret_cast<const float*>(weights.scales.data()), 3 * 24));
  const Operands operands(spec, 2, ElementType::f32, 10);
  const std::vector<std::byte> half = compute(weights, operands, best_isa(), true);
  const int64_t half_bytes = make_layout(spec, Isa::scalar)->packed_bytes;
  weights.spec.half_scales = false;
  CHECK(compute(weights, operands, best_isa(), true) == half);
  CHECK(make_layout(weights.spec, Isa::scalar)->packed_bytes - half_bytes == 3 * 3 * 16);
}

TEST_CASE("NaN and infinity reach the outputs of their row, those of a scale their column, and no other") {
  for (int bits : {2, 8}) {
    for (int level : {0, 4}) {
      for (ElementType type : {ElementType::f32, ElementType::f16}) {
        MatMulSpec spec = {
            .format = WeightFormat::nbits, .k = 40, .n = 20, .bits = bits, .block = 16, .accuracy_level = level};
        Weights weights = make_weights(spec, 11);
        const float infinite = std::numeric_limits<float>::infinity();
        std::memcpy(weights.scales.data() + (7 * 3 + 1) * 4, &infinite, 4);
        Operands operands(spec, 3, type, 12);
        operands.a[35] = std::numeric_limits<float>::quiet_NaN(), operands.a[40 + 35] = infinite;
        for (int64_t row = 0; row < 2; ++row) {
          operands.put(operands.a.data() + row * 40, 40,
                       operands.a_bytes.data() + (1 + row * operands.lda) * int64_t(element_bytes(type)));
        }
        for (Isa isa : isas()) {
          const std::vector<std::byte> out = compute(weights, operands, isa, false);
          for (int64_t i = 0; i < 3 * 22; ++i) {
            const int64_t row = i / 22, column = i % 22;
            float value = 0;
            if (type == ElementType::f16) {
              uint16_t bits16;
              std::memcpy(&bits16, out.data() + 2 * i, 2);
              value = (bits16 & 0x7c00) == 0x7c00 ? infinite : half_value(bits16);
            } else {
              std::memcpy(&value, out.data() + 4 * i, 4);
            }
            // An infinite weight times a quant of zero, or a zero difference, is NaN: not finite either.
            if (column < 20 && row < 2 && weights.quants[35 * 20 + column] != 1 << (bits - 1)) {
              CHECK_FALSE(std::isfinite(value));
            }
            if (column == 7) CHECK_FALSE(std::isfinite(value));
            if (column < 20 && row == 2 && column != 7) CHECK(std::isfinite(value));
          }
        }
      }
    }
  }
}

TEST_SUITE_END();
