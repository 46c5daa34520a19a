// The tiles of DynamicQuantizeLinear, written once over a Vector8.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "ompipe/kernels/quantize.h"
#include "strided_runs.h"

namespace ompipe::kernels {
namespace {

// Scratch: two floats a tile, its least and its greatest element.
template <class V>
void find_bounds(const DynamicQuantizeArguments& a, int64_t tile) {
  const int64_t begin = tile * kElementsPerTile, end = std::min(begin + kElementsPerTile, a.count);
  V lowest = V::broadcast(0.0f), highest = V::broadcast(0.0f);
  for (int64_t i = begin; i < end; i += 8) {
    const V x = end - i < 8 ? V::load_partial(a.x + i, int(end - i)) : V::load(a.x + i);
    // A NaN compares false, so it leaves the second operand.
    lowest = V::minimum(x, lowest);
    highest = V::maximum(x, highest);
  }
  a.shared_scratch[2 * tile] = -V::negate(lowest).largest();
  a.shared_scratch[2 * tile + 1] = highest.largest();
}

inline void choose_scale(const DynamicQuantizeArguments& a) {
  float lowest = 0, highest = 0;
  for (int64_t tile = 0; tile < element_tiles(a.count); ++tile) {
    lowest = std::min(lowest, a.shared_scratch[2 * tile]);
    highest = std::max(highest, a.shared_scratch[2 * tile + 1]);
  }
  // 0 also where the bounds are so near that their quotient is.
  const float scale = (highest - lowest) / 255.0f;
  *a.scale = scale == 0.0f ? 1.0f : scale;
  const float exact = -lowest / *a.scale;
  *a.zero_point = uint8_t(exact > 0.0f ? std::nearbyint(std::min(exact, 255.0f)) : 0.0f);
}

// Adding 1.5 * 2^23 rounds to a whole number, which then stands in the lowest bits.
template <class V>
void quantize(const DynamicQuantizeArguments& a, int64_t tile) {
  const int64_t begin = tile * kElementsPerTile, end = std::min(begin + kElementsPerTile, a.count);
  const float zero_point = float(*a.zero_point);
  const V scale = V::broadcast(*a.scale), round = V::broadcast(12582912.0f);
  const V least = V::broadcast(-zero_point), most = V::broadcast(255.0f - zero_point);
  for (int64_t i = begin; i < end; i += 8) {
    const int count = int(std::min<int64_t>(8, end - i));
    const V x = count < 8 ? V::load_partial(a.x + i, count) : V::load(a.x + i);
    const V q = V::minimum(V::maximum(x / scale, least), most) + round;
    float lanes[8];
    q.store(lanes);
    uint8_t bytes[8];
    for (int j = 0; j < 8; ++j) bytes[j] = uint8_t(std::bit_cast<uint32_t>(lanes[j]) + *a.zero_point);
    std::copy(bytes, bytes + count, a.y + i);
  }
}

template <class V>
void dynamic_quantize_tile(const void* raw, int phase, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const DynamicQuantizeArguments*>(raw);
  if (phase == 0) find_bounds<V>(a, tile);
  if (phase == 1) choose_scale(a);
  if (phase == 2) quantize<V>(a, tile);
}

}  // namespace
}  // namespace ompipe::kernels
