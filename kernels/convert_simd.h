// How a conversion is cut into tiles, and those between float16 and float32, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "half.h"
#include "ompipe/kernels/convert.h"
#include "strided_runs.h"

namespace ompipe::kernels {
namespace {

// The part of the arguments that one tile converts.
struct ConvertRange {
  const std::byte* from;
  std::byte* to;
  int64_t count;
};

[[maybe_unused]] ConvertRange range_of_tile(const ConvertArguments& a, int64_t tile) {
  const int64_t begin = tile * kElementsPerTile;
  return {static_cast<const std::byte*>(a.from) + begin * int64_t(element_bytes(a.from_type)),
          static_cast<std::byte*>(a.to) + begin * int64_t(element_bytes(a.to_type)),
          std::min(kElementsPerTile, a.count - begin)};
}

template <class V>
void half_to_float_tile(const void* arguments, int, int64_t tile, std::byte*) {
  const ConvertRange range = range_of_tile(*static_cast<const ConvertArguments*>(arguments), tile);
  const auto* from = reinterpret_cast<const uint16_t*>(range.from);
  auto* to = reinterpret_cast<float*>(range.to);
  int64_t i = 0;
  for (; i + 8 <= range.count; i += 8) V::load_half(from + i).store(to + i);
  for (; i < range.count; ++i) to[i] = half_to_float(from[i]);
}

template <class V>
void float_to_half_tile(const void* arguments, int, int64_t tile, std::byte*) {
  const ConvertRange range = range_of_tile(*static_cast<const ConvertArguments*>(arguments), tile);
  const auto* from = reinterpret_cast<const float*>(range.from);
  auto* to = reinterpret_cast<uint16_t*>(range.to);
  int64_t i = 0;
  for (; i + 8 <= range.count; i += 8) V::load(from + i).store_half(to + i);
  for (; i < range.count; ++i) to[i] = float_to_half(from[i]);
}

}  // namespace
}  // namespace ompipe::kernels
