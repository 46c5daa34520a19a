// Softmax, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "ompipe/kernels/softmax.h"
#include "row_sums.h"
#include "vector_math.h"

namespace ompipe::kernels {
namespace {

// A tile is some rows of a last axis, or eight neighbours of `inner` else.
inline constexpr int64_t kSoftmaxElementsPerTile = 8192;

struct SoftmaxTiles {
  int64_t rows_per_tile, tiles_per_outer, count;
};

[[maybe_unused]] SoftmaxTiles softmax_tiles(const SoftmaxArguments& a) {
  if (a.outer * a.axis * a.inner == 0) return {1, 1, 0};
  if (a.inner > 1) {
    const int64_t per_outer = (a.inner + 7) / 8;
    return {1, per_outer, a.outer * per_outer};
  }
  const int64_t rows = std::max<int64_t>(1, kSoftmaxElementsPerTile / a.axis);
  return {rows, 1, (a.outer + rows - 1) / rows};
}

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

template <class V>
void softmax_row(const float* x, float* y, int64_t count) {
  V most = V::broadcast(kLowest);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) most = V::maximum(V::load(x + i), most);
  float largest = most.largest();
  for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  const V shift = V::broadcast(largest);
  i = 0;
  for (; i + 8 <= count; i += 8) exp(V::load(x + i) - shift).store(y + i);
  if (i < count) exp(V::load_partial(x + i, int(count - i)) - shift).store_partial(y + i, int(count - i));
  const V factor = V::broadcast(1.0f / sum<V>(y, count));
  i = 0;
  for (; i + 8 <= count; i += 8) (V::load(y + i) * factor).store(y + i);
  if (i < count) (V::load_partial(y + i, int(count - i)) * factor).store_partial(y + i, int(count - i));
}

// `lanes` neighbouring groups whose elements lie `stride` apart.
template <class V>
void softmax_columns(const float* x, float* y, int64_t count, int64_t stride, int lanes) {
  V most = V::broadcast(kLowest);
  for (int64_t i = 0; i < count; ++i) most = V::maximum(V::load_partial(x + i * stride, lanes), most);
  V total = V::broadcast(0.0f);
  for (int64_t i = 0; i < count; ++i) {
    const V e = exp(V::load_partial(x + i * stride, lanes) - most);
    e.store_partial(y + i * stride, lanes);
    total = total + e;
  }
  const V factor = V::broadcast(1.0f) / total;
  for (int64_t i = 0; i < count; ++i) {
    (V::load_partial(y + i * stride, lanes) * factor).store_partial(y + i * stride, lanes);
  }
}

template <class V>
void softmax_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const SoftmaxArguments*>(raw);
  const SoftmaxTiles tiles = softmax_tiles(a);
  if (a.inner > 1) {
    const int64_t column = tile % tiles.tiles_per_outer * 8;
    const int64_t at = tile / tiles.tiles_per_outer * a.axis * a.inner + column;
    return softmax_columns<V>(a.x + at, a.y + at, a.axis, a.inner, int(std::min<int64_t>(8, a.inner - column)));
  }
  const int64_t begin = tile * tiles.rows_per_tile, end = std::min(begin + tiles.rows_per_tile, a.outer);
  for (int64_t row = begin; row < end; ++row) softmax_row<V>(a.x + row * a.axis, a.y + row * a.axis, a.axis);
}

}  // namespace
}  // namespace ompipe::kernels
