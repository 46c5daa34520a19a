// Exact products of int8 matrices with constant, prepacked weights: ONNX MatMulInteger.
//
// The weight is described, packed and laid out as in matmul.h, with WeightFormat::u8 or s8. Nothing here allocates,
// locks, starts threads or throws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// out[m, n] = sum over k of (a[m, k] - a zero point) * (b[k, n] - zero point of n), modulo 2^32: exact as long as it
// fits. The bits depend on nothing else. All memory is the caller's and outlives the call.
struct MatMulIntegerArgs {
  const PackedLayout* layout = nullptr;  // of format u8 or s8
  const std::byte* packed = nullptr;
  int64_t m = 0;
  bool a_signed = false;    // int8, else uint8
  const void* a = nullptr;  // [m, K], rows `lda` elements apart
  int64_t lda = 0;
  const void* a_zero_point = nullptr;   // one element of A's type; null: 0
  const void* b_zero_points = nullptr;  // of B's type, `b_zero_point_stride` apart: 1 of each column, 0 of all; null: 0
  int64_t b_zero_point_stride = 0;
  int32_t* out = nullptr;  // [m, N], rows `ldc` elements apart; must not overlap the inputs
  int64_t ldc = 0;
  std::byte* shared_scratch = nullptr;  // integer_scratch_bytes, aligned; one for all tiles of the call
};

// Bytes that all tiles of one call share. Never falls as `m` rises.
int64_t integer_scratch_bytes(const PackedLayout& layout, int64_t m);

// The call for `args`, which outlives it. Until a tile runs only `layout` and `m` are read. Its tile_scratch_bytes
// never falls as m rises. Any thread; no errors.
TiledCall matmul_integer_call(const MatMulIntegerArgs& args);

}  // namespace ompipe::kernels
