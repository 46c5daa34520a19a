// Rotary embedding of one head, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "half.h"
#include "ompipe/kernels/rotary.h"
#include "vector8_elements.h"

namespace ompipe::kernels {
namespace {

// Each output is one rounded product and one fma: fma(-b, sin, a cos) and fma(b, cos, a sin). y may be x.
template <class V, class T>
void rotate_halves(const float* x, float* y, const T* cos, const T* sin, int64_t pairs) {
  for (int64_t i = 0; i < pairs; i += 8) {
    const int lanes = int(std::min<int64_t>(8, pairs - i));
    const V a = V::load_partial(x + i, lanes), b = V::load_partial(x + pairs + i, lanes);
    const V c = load_elements<V>(cos + i, lanes), s = load_elements<V>(sin + i, lanes);
    V::fma(V::negate(b), s, a * c).store_partial(y + i, lanes);
    V::fma(b, c, a * s).store_partial(y + pairs + i, lanes);
  }
}

[[maybe_unused]] float float_of(float value) { return value; }
[[maybe_unused]] float float_of(uint16_t half) { return half_to_float(half); }

template <class T>
void rotate_interleaved(const float* x, float* y, const T* cos, const T* sin, int64_t pairs) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], c = float_of(cos[i]), s = float_of(sin[i]);
    y[2 * i] = std::fma(-b, s, a * c);
    y[2 * i + 1] = std::fma(b, c, a * s);
  }
}

// One head of head_size floats at a position inside the table.
template <class V>
void rotate_head(const RotaryTable& table, int64_t position, const float* x, float* y, int64_t head_size) {
  with_element(table.type, [&](auto element) {
    const auto* cos = static_cast<const decltype(element)*>(table.cos) + position * table.pairs;
    const auto* sin = static_cast<const decltype(element)*>(table.sin) + position * table.pairs;
    if (table.interleaved) {
      rotate_interleaved(x, y, cos, sin, table.pairs);
    } else {
      rotate_halves<V>(x, y, cos, sin, table.pairs);
    }
  });
  const int64_t rotated = 2 * table.pairs;
  if (x != y) std::memcpy(y + rotated, x + rotated, size_t(head_size - rotated) * sizeof(float));
}

// A tile is this many positions of one batch row, all heads.
inline constexpr int64_t kRotaryPositionsPerTile = 16;

[[maybe_unused]] int64_t rotary_tiles_per_row(int64_t sequence) {
  return (sequence + kRotaryPositionsPerTile - 1) / kRotaryPositionsPerTile;
}

template <class V>
void rotary_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const RotaryArguments*>(raw);
  const int64_t per_row = rotary_tiles_per_row(a.sequence), b = tile / per_row;
  const int64_t begin = tile % per_row * kRotaryPositionsPerTile;
  for (int64_t s = begin; s < std::min(begin + kRotaryPositionsPerTile, a.sequence); ++s) {
    const int64_t position = a.one_offset ? a.position_ids[0] + s : a.position_ids[b * a.sequence + s];
    for (int64_t h = 0; h < a.heads; ++h) {
      rotate_head<V>(a.table, position, a.x + b * a.x_strides[0] + s * a.x_strides[1] + h * a.x_strides[2],
                     a.y + b * a.y_strides[0] + s * a.y_strides[1] + h * a.y_strides[2], a.head_size);
    }
  }
}

}  // namespace
}  // namespace ompipe::kernels
