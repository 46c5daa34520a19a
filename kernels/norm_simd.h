// RMS and layer normalisation, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ompipe/kernels/norm.h"
#include "row_sums.h"

namespace ompipe::kernels {
namespace {

// Rows are cut so that a tile is about this many elements.
inline constexpr int64_t kNormElementsPerTile = 8192;

[[maybe_unused]] int64_t norm_rows_per_tile(int64_t columns) {
  return std::max<int64_t>(1, kNormElementsPerTile / std::max<int64_t>(1, columns));
}

// to[i] = body(i, lanes) for each vector of a row; `lanes` says how many are there.
template <class V, class Body>
void map_row(float* to, int64_t columns, Body body) {
  int64_t i = 0;
  for (; i + 8 <= columns; i += 8) body(i, 8).store(to + i);
  if (i < columns) body(i, int(columns - i)).store_partial(to + i, int(columns - i));
}

template <class V>
void rms_norm_row(const RmsNormArguments& a, int64_t row) {
  const int64_t at = row * a.columns;
  const float* s = a.x + at;
  if (a.skip != nullptr || a.bias != nullptr) {
    float* sums = (a.sum != nullptr ? a.sum : a.y) + at;
    map_row<V>(sums, a.columns, [&](int64_t i, int lanes) {
      V value = V::load_partial(a.x + at + i, lanes);
      if (a.skip != nullptr) value = value + V::load_partial(a.skip + at + i, lanes);
      if (a.bias != nullptr) value = value + V::load_partial(a.bias + i, lanes);
      return value;
    });
    s = sums;
  } else if (a.sum != nullptr) {
    map_row<V>(a.sum + at, a.columns, [&](int64_t i, int lanes) { return V::load_partial(s + i, lanes); });
  }
  const float mean = sum_of_squares<V>(s, a.columns) / float(a.columns);
  const V factor = V::broadcast(1.0f / std::sqrt(mean + a.epsilon));
  map_row<V>(a.y + at, a.columns, [&](int64_t i, int lanes) {
    return (V::load_partial(s + i, lanes) * factor) * V::load_partial(a.gain + i, lanes);
  });
}

template <class V>
void layer_norm_row(const LayerNormArguments& a, int64_t row) {
  const float* x = a.x + row * a.columns;
  const float mean = sum<V>(x, a.columns) / float(a.columns);
  const float variance = sum_of_squared_deviations<V>(x, a.columns, mean) / float(a.columns);
  const V center = V::broadcast(mean);
  const V factor = V::broadcast(1.0f / std::sqrt(variance + a.epsilon));
  map_row<V>(a.y + row * a.columns, a.columns, [&](int64_t i, int lanes) {
    const V normal = (V::load_partial(x + i, lanes) - center) * factor;
    const V gain = V::load_partial(a.gain + i, lanes);
    return a.bias == nullptr ? normal * gain : V::fma(normal, gain, V::load_partial(a.bias + i, lanes));
  });
}

template <class V>
void rms_norm_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& arguments = *static_cast<const RmsNormArguments*>(raw);
  const int64_t rows = norm_rows_per_tile(arguments.columns), begin = tile * rows;
  for (int64_t row = begin; row < std::min(begin + rows, arguments.rows); ++row) rms_norm_row<V>(arguments, row);
}

template <class V>
void layer_norm_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& arguments = *static_cast<const LayerNormArguments*>(raw);
  const int64_t rows = norm_rows_per_tile(arguments.columns), begin = tile * rows;
  for (int64_t row = begin; row < std::min(begin + rows, arguments.rows); ++row) layer_norm_row<V>(arguments, row);
}

}  // namespace
}  // namespace ompipe::kernels
