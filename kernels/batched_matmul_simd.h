// Batched product of two strided activations, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "batched_matmul_tiles.h"

namespace ompipe::kernels {
namespace {

// Sixteen columns of B over some k: row k lies at data + k * stride.
struct Panel {
  const float* data;
  int64_t stride, depth;
};

// c[rows][16] (+)= a[rows][depth] * panel; `first` starts the chains at 0, otherwise they go on from c.
template <class V, int rows>
void multiply_panel(const float* a, int64_t a_row_stride, int64_t a_k_stride, Panel panel, float* c,
                    int64_t c_row_stride, int columns, bool first) {
  const int low = std::min(columns, 8), high = columns - low;
  V sums[rows][2];
  for (int r = 0; r < rows; ++r) {
    const float* row = c + r * c_row_stride;
    sums[r][0] = first ? V::broadcast(0.0f) : V::load_partial(row, low);
    sums[r][1] = first || high == 0 ? V::broadcast(0.0f) : V::load_partial(row + 8, high);
  }
  const float* b = panel.data;
  for (int64_t k = 0; k < panel.depth; ++k, b += panel.stride, a += a_k_stride) {
    const V b0 = V::load(b), b1 = V::load(b + 8);
    for (int r = 0; r < rows; ++r) {
      const V x = V::broadcast(a[r * a_row_stride]);
      sums[r][0] = V::fma(x, b0, sums[r][0]);
      sums[r][1] = V::fma(x, b1, sums[r][1]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    float* row = c + r * c_row_stride;
    sums[r][0].store_partial(row, low);
    if (high > 0) sums[r][1].store_partial(row + 8, high);
  }
}

// B's columns where they lie if they are contiguous and all sixteen are there, else copied, with zeros beyond.
[[maybe_unused]] Panel take_panel(const BatchedMatMulArguments& a, const float* b, int columns, int64_t depth,
                                  float* scratch) {
  if (a.b_column_stride == 1 && columns == kBatchedPanelColumns) return {b, a.b_k_stride, depth};
  for (int column = 0; column < kBatchedPanelColumns; ++column) {
    for (int64_t k = 0; k < depth; ++k) {
      scratch[k * kBatchedPanelColumns + column] =
          column < columns ? b[k * a.b_k_stride + column * a.b_column_stride] : 0.0f;
    }
  }
  return {scratch, kBatchedPanelColumns, depth};
}

template <class V>
void multiply_rows(const BatchedMatMulArguments& args, const float* a, Panel panel, float* c, int64_t rows, int columns,
                   bool first) {
  const auto multiply = [&](auto count, int64_t r) {
    multiply_panel<V, count>(a + r * args.a_row_stride, args.a_row_stride, args.a_k_stride, panel,
                             c + r * args.c_row_stride, args.c_row_stride, columns, first);
  };
  int64_t r = 0;
  for (; r + 6 <= rows; r += 6) multiply(std::integral_constant<int, 6>(), r);
  for (; r + 2 <= rows; r += 2) multiply(std::integral_constant<int, 2>(), r);
  if (r < rows) multiply(std::integral_constant<int, 1>(), r);
}

// Offsets of one batch element: c, a, b.
[[maybe_unused]] std::array<int64_t, 3> batch_offsets(const StridedLoop& batch, int64_t index) {
  std::array<int64_t, 3> offsets = {};
  for (int i = batch.rank - 1; i >= 0; --i) {
    const int64_t coordinate = index % batch.dims[i];
    index /= batch.dims[i];
    for (int operand = 0; operand < 3; ++operand) offsets[operand] += coordinate * batch.strides[operand][i];
  }
  return offsets;
}

template <class V>
void batched_matmul_tile(const void* raw, int, int64_t tile, std::byte* memory) {
  const auto& args = *static_cast<const BatchedMatMulArguments*>(raw);
  const BatchedMatMulTiles tiles = batched_matmul_tiles(args);
  const int64_t column_begin = tile % tiles.column_tiles * kTileColumns;
  const int64_t row_begin = tile / tiles.column_tiles % tiles.row_tiles * kTileRows;
  const auto offsets = batch_offsets(args.batch, tile / tiles.column_tiles / tiles.row_tiles);
  const int64_t rows = std::min(kTileRows, args.m - row_begin);
  const int64_t column_end = std::min(column_begin + kTileColumns, args.n);
  const float* a = args.a + offsets[1] + row_begin * args.a_row_stride;
  float* c = args.c + offsets[0] + row_begin * args.c_row_stride;
  for (int64_t column = column_begin; column < column_end; column += kBatchedPanelColumns) {
    const int columns = int(std::min(kBatchedPanelColumns, column_end - column));
    int64_t k = 0;
    do {  // once for k = 0 too, which writes zeros
      const float* b = args.b + offsets[2] + column * args.b_column_stride + k * args.b_k_stride;
      const int64_t depth = std::min(kPanelDepth, args.k - k);
      const Panel panel = take_panel(args, b, columns, depth, reinterpret_cast<float*>(memory));
      multiply_rows<V>(args, a + k * args.a_k_stride, panel, c + column, rows, columns, k == 0);
      k += depth;
    } while (k < args.k);
  }
}

}  // namespace
}  // namespace ompipe::kernels
