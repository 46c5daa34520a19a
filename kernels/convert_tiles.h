// How a conversion is cut into tiles, and those that F16C speeds up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ompipe/kernels/convert.h"
#include "strided_runs.h"

namespace ompipe::kernels {

// The part of the arguments that one tile converts.
struct ConvertRange {
  const std::byte* from;
  std::byte* to;
  int64_t count;
};

void half_to_float_tile_avx2(const void* arguments, int phase, int64_t tile, std::byte* scratch);
void float_to_half_tile_avx2(const void* arguments, int phase, int64_t tile, std::byte* scratch);

namespace {

[[maybe_unused]] ConvertRange range_of_tile(const ConvertArguments& a, int64_t tile) {
  const int64_t begin = tile * kElementsPerTile;
  return {static_cast<const std::byte*>(a.from) + begin * int64_t(element_bytes(a.from_type)),
          static_cast<std::byte*>(a.to) + begin * int64_t(element_bytes(a.to_type)),
          std::min(kElementsPerTile, a.count - begin)};
}

}  // namespace
}  // namespace ompipe::kernels
