// A whole table of matrix kernels, filled from one vector type of eight lanes; included by the files of scalar, avx2
// and neon.
#pragma once

#include "matmul_floats_impl.h"
#include "matmul_integer_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "nbits_float_impl.h"
#include "pack_bytes_impl.h"
#include "pack_floats_impl.h"
#include "pack_nbits_impl.h"
#include "portable_floats_impl.h"
#include "portable_nbits_impl.h"
#include "portable_strip_impl.h"

namespace ompipe::kernels {

template <class V>
constexpr MatMulKernels whole_matmul_kernels() {
  static_assert(sizeof(MatMulKernels) == 16 * sizeof(void (*)()), "as many functions as are named here");
  return {
      .pack_floats = pack_floats<V>,
      .pack_nbits = pack_nbits<V>,
      .quantise_rows = quantise_rows<V>,
      .prepare_floats = prepare_floats<V>,
      .floats_tile = floats_tile<V>,
      .nbits_float_tile = nbits_float_tile<V>,
      .nbits_int_tile = nbits_int_tile<V>,
      .pack_strip = pack_strip<V>,
      .multiply_strip = multiply_strip<V>,
      .write_strip = write_strip<V>,
      .floats_direct_tile = floats_direct_tile<V>,
      .quantise_spans = quantise_spans<V>,
      .nbits_direct_tile = nbits_direct_tile<V>,
      .pack_bytes = pack_bytes<V>,
      .prepare_bytes = prepare_bytes<V>,
      .integer_tile = integer_tile<V>,
  };
}

}  // namespace ompipe::kernels
