// Walks a range of a StridedLoop's elements as runs along its innermost dimension.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ompipe/kernels/strided.h"

namespace ompipe::kernels {
namespace {

// Elements that one tile of an element-wise kernel computes: some 10 µs of work, a multiple of every vector width.
inline constexpr int64_t kElementsPerTile = 16384;

[[maybe_unused]] int64_t element_tiles(int64_t element_count) {
  return (element_count + kElementsPerTile - 1) / kElementsPerTile;
}

// Calls body(offsets, count) for each run of elements begin <= i < end: offsets[operand] is the run's first element of
// that operand, and the next ones lie strides[operand][rank - 1] apart. Empty for an empty loop.
template <class Body>
void for_each_run(const StridedLoop& loop, int64_t begin, int64_t end, Body body) {
  const int inner = loop.rank - 1;
  while (begin < end) {
    std::array<int64_t, kMaxOperands> offsets = {};
    int64_t rest = begin;
    int64_t position = 0;
    for (int i = inner; i >= 0; --i) {
      const int64_t coordinate = rest % loop.dims[i];
      rest /= loop.dims[i];
      if (i == inner) position = coordinate;
      for (int operand = 0; operand < loop.operand_count; ++operand) {
        offsets[operand] += coordinate * loop.strides[operand][i];
      }
    }
    const int64_t count = std::min(end - begin, loop.dims[inner] - position);
    body(offsets, count);
    begin += count;
  }
}

// The runs of one tile of kElementsPerTile elements.
template <class Body>
void for_each_run_of_tile(const StridedLoop& loop, int64_t tile, Body body) {
  const int64_t begin = tile * kElementsPerTile;
  for_each_run(loop, begin, std::min(begin + kElementsPerTile, loop.element_count), body);
}

}  // namespace
}  // namespace ompipe::kernels
