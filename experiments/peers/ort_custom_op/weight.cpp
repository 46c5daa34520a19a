#include "weight.h"

#include <bit>
#include <cmath>
#include <random>

float half_value(uint16_t half) { return static_cast<float>(std::bit_cast<_Float16>(half)); }

float rounded_to_half(float value) { return static_cast<float>(static_cast<_Float16>(value)); }

std::vector<uint16_t> to_halves(const std::vector<float>& values) {
  std::vector<uint16_t> halves;
  halves.reserve(values.size());
  for (float value : values) halves.push_back(std::bit_cast<uint16_t>(static_cast<_Float16>(value)));
  return halves;
}

namespace {

// Element `at` of a row of bytes, low bits first.
int unpack(const uint8_t* row, int64_t at, int bits) { return row[at * bits / 8] >> at * bits % 8 & ((1 << bits) - 1); }

}  // namespace

double Weight::value(int64_t k, int64_t n) const {
  const int64_t block = n * blocks() + k / format.block;
  const int quant = unpack(b.data() + block * format.block * format.bits / 8, k % format.block, format.bits);
  double zero_point = 1 << (format.bits - 1);
  if (format.zero_points == ZeroPoints::packed) {
    zero_point = unpack(packed_zero_points.data() + n * zero_point_bytes(), k / format.block, format.bits);
  } else if (has_fractions(format.zero_points)) {
    zero_point = zero_points[static_cast<size_t>(block)];
  }
  return (quant - zero_point) * double(scales[static_cast<size_t>(block)]);
}

Weight make_weight(int64_t size, const Format& format, uint32_t seed) {
  std::mt19937 random(seed);
  const auto uniform = [&random](float least, float most) {
    return rounded_to_half(std::uniform_real_distribution<float>(least, most)(random));
  };
  Weight weight;
  weight.size = size;
  weight.format = format;
  weight.b.resize(static_cast<size_t>(size * size * format.bits / 8));
  weight.scales.resize(static_cast<size_t>(size * weight.blocks()));
  for (uint8_t& byte : weight.b) byte = static_cast<uint8_t>(random());
  const auto levels = static_cast<float>(1 << format.bits);
  if (format.zero_points == ZeroPoints::packed) {
    weight.packed_zero_points.resize(static_cast<size_t>(size * weight.zero_point_bytes()));
    for (uint8_t& byte : weight.packed_zero_points) byte = static_cast<uint8_t>(random());
  } else if (has_fractions(format.zero_points)) {
    weight.zero_points.resize(weight.scales.size());
    for (float& each : weight.zero_points) each = uniform(0, levels - 1);
  }
  // The mean square of a quant less its zero point, which is one of them or their middle.
  const float mean_square = levels * levels / (format.zero_points == ZeroPoints::none ? 12 : 6);
  const float scale = 1 / std::sqrt(mean_square * static_cast<float>(size));
  for (float& each : weight.scales) each = uniform(0.5f * scale, 1.4f * scale);
  if (format.bias) {
    weight.bias.resize(static_cast<size_t>(size));
    for (float& each : weight.bias) each = uniform(-1, 1);
  }
  return weight;
}
