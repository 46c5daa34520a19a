// float32 MatMul of two activations, batched and strided, without packing beforehand.
#pragma once

#include <cstdint>

#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/strided.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// c[batch][m][n] = sum over k of a[batch][m][k] * b[batch][k][n]. Strides are in elements and free, so a Transpose of a
// or b is a view; c's columns are contiguous. c overlaps neither a nor b.
struct BatchedMatMulArguments {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row_stride = 0, a_k_stride = 1;
  int64_t b_k_stride = 0, b_column_stride = 1;
  int64_t c_row_stride = 0;
  // Operands c, a, b, over the batch dimensions: make_loop(c's, {a's, b's}) of the layouts without the last two
  // dimensions, which broadcasts them.
  StridedLoop batch;
};

// One phase; the arguments must outlive the call. Each output is one chain of fmas in rising k from 0, as in the packed
// kernels: the same bits as those, and for every ISA. k = 0 gives zeros. Any thread; no errors.
TiledCall batched_matmul_call(const BatchedMatMulArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
