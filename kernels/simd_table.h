// Fills a SimdKernels with the kernels of one Vector8; included by the file of each instruction set.
#pragma once

#include "attention_simd.h"
#include "batched_matmul_simd.h"
#include "convert_simd.h"
#include "elementwise_simd.h"
#include "norm_simd.h"
#include "quantize_simd.h"
#include "reduce_simd.h"
#include "rotary_simd.h"
#include "simd_kernels.h"
#include "softmax_simd.h"

namespace ompipe::kernels {
namespace {

template <class V, int... ops>
constexpr std::array<TiledCall::RunTile, sizeof...(ops)> unary_tiles(std::integer_sequence<int, ops...>) {
  return {unary_tile<V, UnaryOp(ops)>...};
}

template <class V, int... ops>
constexpr std::array<TiledCall::RunTile, sizeof...(ops)> binary_tiles(std::integer_sequence<int, ops...>) {
  return {binary_tile<V, BinaryOp(ops)>...};
}

template <class V>
constexpr SimdKernels make_simd_kernels() {
  return {
      .unary_f32 = unary_tiles<V>(std::make_integer_sequence<int, kUnaryOps>()),
      .binary_f32 = binary_tiles<V>(std::make_integer_sequence<int, kBinaryOps>()),
      .softmax = softmax_tile<V>,
      .rms_norm = rms_norm_tile<V>,
      .layer_norm = layer_norm_tile<V>,
      .reduce_rows = reduce_rows_tile<V>,
      .rotary = rotary_tile<V>,
      .attention = attention_tile<V>,
      .batched_matmul = batched_matmul_tile<V>,
      .half_to_float = half_to_float_tile<V>,
      .float_to_half = float_to_half_tile<V>,
      .dynamic_quantize = dynamic_quantize_tile<V>,
  };
}

}  // namespace
}  // namespace ompipe::kernels
