// float16 and bfloat16 in integer arithmetic, for code that must not need F16C.
#pragma once

#include <bit>
#include <cstdint>

namespace ompipe::kernels {
namespace {

// Exact. A NaN keeps its upper mantissa bits and becomes quiet, as vcvtph2ps makes it.
[[maybe_unused]] float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3FF;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0u));
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = float(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

// Round to nearest even; as vcvtps2ph does it.
[[maybe_unused]] uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return uint16_t(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  if (magnitude >= 0x477FF000) return uint16_t(sign | 0x7C00);  // 65520 and more
  if (magnitude < 0x38800000) {                                 // below 2^-14: a multiple of 2^-24
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;   // rounds to that multiple
    return uint16_t(sign | (std::bit_cast<uint32_t>(sum) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return uint16_t(sign | ((rounded - 0x38000000u) >> 13));
}

[[maybe_unused]] float bfloat_to_float(uint16_t value) { return std::bit_cast<float>(uint32_t(value) << 16); }

[[maybe_unused]] uint16_t float_to_bfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace
}  // namespace ompipe::kernels
