// What matmul_integer.cpp and its kernels agree on: the layout of packed bytes, of A, and the zero points.
#pragma once

#include <cstdint>

#include "matmul_kernels.h"
#include "ompipe/kernels/matmul_integer.h"

namespace ompipe::kernels {

inline constexpr int kByteUnit = 32;  // of k: as many as 16 bits take the sums of, where an ISA sums so
inline constexpr int64_t kByteUnitBytes = kByteUnit * kGroupColumns;
inline constexpr int kMaxByteRows = 96;  // of A that one tile passes over

inline int64_t byte_units(const MatMulSpec& spec) { return divide_up(spec.k, kByteUnit); }

// Of one row of A as int8, with the sum of its elements.
inline int64_t byte_row_bytes(const MatMulSpec& spec) { return byte_units(spec) * kByteUnit + 4; }

inline int byte_value(const void* at, int64_t i, bool is_signed) {
  return is_signed ? static_cast<const int8_t*>(at)[i] : static_cast<const uint8_t*>(at)[i];
}

// As A is multiplied, int8, and B, uint8.
inline int a_zero_point(const MatMulIntegerArgs& args) {
  const int value = args.a_zero_point == nullptr ? 0 : byte_value(args.a_zero_point, 0, args.a_signed);
  return args.a_signed ? value : value - 128;
}
inline int b_zero_point(const MatMulIntegerArgs& args, int64_t column) {
  const bool is_signed = args.layout->spec.format == WeightFormat::s8;
  const int64_t at = column * args.b_zero_point_stride;
  const int value = args.b_zero_points == nullptr ? 0 : byte_value(args.b_zero_points, at, is_signed);
  return is_signed ? value + 128 : value;
}

}  // namespace ompipe::kernels
