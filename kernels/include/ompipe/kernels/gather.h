// Gather along an axis, and gathering rows of a 4-bit table (GatherBlockQuantized).
#pragma once

#include <cstdint>

#include "ompipe/kernels/element_type.h"
#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// Indices of a gather: i32 or i64, negative ones count from the end of the axis.
struct GatherIndices {
  ElementType type = ElementType::i64;
  const void* data = nullptr;
  int64_t count = 0;

  int64_t at(int64_t i) const {
    return type == ElementType::i32 ? static_cast<const int32_t*>(data)[i] : static_cast<const int64_t*>(data)[i];
  }
};

// Position of the first index outside [-axis_size, axis_size); -1 if all are inside, which the calls below demand.
int64_t find_bad_index(const GatherIndices& indices, int64_t axis_size);

// ONNX Gather: data is contiguous [outer, axis_size, inner], output [outer, indices.count, inner].
struct GatherArguments {
  ElementType type = ElementType::f32;
  const void* data = nullptr;
  void* output = nullptr;
  GatherIndices indices;
  int64_t outer = 1, axis_size = 0, inner = 0;
};

// One phase; the arguments must outlive the call. Any thread.
TiledCall gather_call(const GatherArguments& arguments);

// One row of a table with 4 bits an element, low nibble first, and a scale for each `block` elements.
struct Nibbles4Row {
  const uint8_t* nibbles = nullptr;      // [columns / 2], rounded up
  const float* scales = nullptr;         // [columns / block], rounded up
  const uint8_t* zero_points = nullptr;  // 4 bits for each block, low nibble first; null: 8
};

// output[i] = (q[i] - zero point) * scale, i < columns. For tables whose rows do not lie in one piece (recipe `rows`).
void dequantize_row(const Nibbles4Row& row, int64_t columns, int64_t block, float* output);

// com.microsoft::GatherBlockQuantized with gather_axis 0, quantize_axis last, bits 4: table is row 0, and each row
// follows the one before without a gap. output [indices.count, columns].
struct GatherNibbles4Arguments {
  Nibbles4Row table;
  float* output = nullptr;
  GatherIndices indices;
  int64_t rows = 0, columns = 0, block = 0;
};

// One phase; the arguments must outlive the call. Any thread.
TiledCall gather_nibbles4_call(const GatherNibbles4Arguments& arguments);

// The same rows out of a packed 4-bit weight (matmul.h) whose zero points have no fractions: row r of the table is
// column r of B. One packed form so serves an embedding and a head that share their bytes. Gives the bits of
// gather_nibbles4_call.
struct GatherPackedArguments {
  const PackedLayout* layout = nullptr;
  const std::byte* packed = nullptr;
  float* output = nullptr;  // [indices.count, columns]
  GatherIndices indices;    // of layout->spec.n rows
  int64_t columns = 0;      // at most K, rounded up to whole blocks: the file holds the last block whole
};

// One phase; the arguments must outlive the call. Any thread.
TiledCall gather_packed_call(const GatherPackedArguments& arguments);

}  // namespace ompipe::kernels
