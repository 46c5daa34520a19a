// How a batched product is cut into tiles; shared by its dispatch and its kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/kernels/batched_matmul.h"

namespace ompipe::kernels {
namespace {

inline constexpr int64_t kBatchedPanelColumns = 16;
inline constexpr int64_t kTileColumns = 4 * kBatchedPanelColumns;
inline constexpr int64_t kTileRows = 96;     // of A against one strip of B, a multiple of the micro-kernel's 6
inline constexpr int64_t kPanelDepth = 256;  // of k: a panel of 16 columns is 16 KiB, half of the first-level cache
inline constexpr size_t kPanelBytes = size_t(kBatchedPanelColumns * kPanelDepth) * sizeof(float);

struct BatchedMatMulTiles {
  int64_t row_tiles, column_tiles, count;
};

[[maybe_unused]] BatchedMatMulTiles batched_matmul_tiles(const BatchedMatMulArguments& a) {
  const int64_t row_tiles = (a.m + kTileRows - 1) / kTileRows, column_tiles = (a.n + kTileColumns - 1) / kTileColumns;
  return {row_tiles, column_tiles, a.batch.element_count * row_tiles * column_tiles};
}

}  // namespace
}  // namespace ompipe::kernels
