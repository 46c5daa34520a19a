// Rotary position embedding (RoPE) of float32 heads.
#pragma once

#include <cstdint>

#include "ompipe/kernels/element_type.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// The angles: row p of `cos` and `sin` holds those of position p, one for each pair that is rotated. Of a head the
// first 2 * pairs elements are rotated, the rest passes. A pair is (x[i], x[i + pairs]), or (x[2i], x[2i + 1]) if
// interleaved; it becomes (a cos - b sin, a sin + b cos).
struct RotaryTable {
  const void* cos = nullptr;  // [positions, pairs] of `type`
  const void* sin = nullptr;
  int64_t positions = 0, pairs = 0;
  bool interleaved = false;
  ElementType type = ElementType::f32;  // or f16
};

// Stand-alone com.microsoft::RotaryEmbedding. Heads are contiguous runs of head_size floats, the other strides are
// free, so [B, S, H d], [B, H, S, d] and slices of packed q, k, v all fit. y may be x with equal strides.
struct RotaryArguments {
  RotaryTable table;
  const float* x = nullptr;
  float* y = nullptr;
  int64_t x_strides[3] = {}, y_strides[3] = {};  // of batch, position, head
  int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  const int64_t* position_ids = nullptr;  // [batch, sequence], or, if one_offset, the first position of every row
  bool one_offset = false;
};

// Index into position_ids of the first one that leads outside the table; -1 if all are right. The call demands that.
int64_t find_bad_position(const RotaryArguments& arguments);

// One phase; the arguments must outlive the call. The same bits for every ISA. Any thread.
TiledCall rotary_call(const RotaryArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
