// The kernels that are compiled once for each instruction set, as one table of functions for each.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "ompipe/kernels/elementwise.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

inline constexpr int kUnaryOps = int(UnaryOp::logical_not);  // the float ones, which come first
inline constexpr int kBinaryOps = int(BinaryOp::max) + 1;    // those with a float32 result, which come first

struct SimdKernels {
  std::array<TiledCall::RunTile, kUnaryOps> unary_f32;
  std::array<TiledCall::RunTile, kBinaryOps> binary_f32;
  TiledCall::RunTile softmax;
  TiledCall::RunTile rms_norm;
  TiledCall::RunTile layer_norm;
  TiledCall::RunTile reduce_rows;
  TiledCall::RunTile rotary;
  TiledCall::RunTile attention;
  TiledCall::RunTile batched_matmul;
  TiledCall::RunTile half_to_float;
  TiledCall::RunTile float_to_half;
  TiledCall::RunTile dynamic_quantize;
};

extern const SimdKernels kSimdKernelsScalar;
extern const SimdKernels kSimdKernelsAvx2;
extern const SimdKernels kSimdKernelsNeon;

// The table that an available `isa` runs. Eight lanes are fixed by the orders of sums, so sets with wider registers run
// those of avx2.
const SimdKernels& simd_kernels(Isa isa);

// The usual one-phase call.
inline TiledCall one_phase(const void* arguments, TiledCall::RunTile run_tile, int64_t tiles, double predicted_ns) {
  TiledCall call;
  call.arguments = arguments;
  call.run_tile = run_tile;
  call.phase_count = 1;
  call.tile_counts[0] = tiles;
  call.phase_ns[0] = predicted_ns;
  return call;
}

}  // namespace ompipe::kernels
