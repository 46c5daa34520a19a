// Random weights in the formats that MatMulNBits takes, and their values.
#pragma once

#include <cstdint>
#include <vector>

enum class Element { f32, f16 };

enum class ZeroPoints { none, packed, f32, f16 };

inline bool has_fractions(ZeroPoints kind) { return kind == ZeroPoints::f32 || kind == ZeroPoints::f16; }

// Of a node and its weight.
struct Format {
  int bits = 4, block = 32;
  int64_t level = 4;
  ZeroPoints zero_points = ZeroPoints::packed;
  Element scales = Element::f32;
  Element rows = Element::f32;  // A, bias and outputs
  bool bias = false;
};

std::vector<uint16_t> to_halves(const std::vector<float>& values);
float half_value(uint16_t half);
float rounded_to_half(float value);

// One square weight [size, size]. Scales and zero points with fractions are numbers of float16 whatever their type is.
struct Weight {
  int64_t size = 0;
  Format format;
  std::vector<uint8_t> b, packed_zero_points;
  std::vector<float> scales, zero_points, bias;

  int64_t blocks() const { return size / format.block; }
  // Bytes of one column's packed zero points.
  int64_t zero_point_bytes() const { return (blocks() * format.bits + 7) / 8; }

  // Its value at (k, n).
  double value(int64_t k, int64_t n) const;
};

// Keeps a row's norm roughly as it is. `size` is a multiple of the block.
Weight make_weight(int64_t size, const Format& format, uint32_t seed);
