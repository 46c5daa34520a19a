// Sum and mean of contiguous float rows, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ompipe/kernels/reduce.h"
#include "row_sums.h"
#include "strided_runs.h"

namespace ompipe::kernels {
namespace {

// Outputs of one tile: a function of how many elements each sums.
[[maybe_unused]] int64_t reduce_outputs_per_tile(const ReduceArguments& a) {
  return std::max<int64_t>(1, kElementsPerTile / std::max<int64_t>(1, a.reduced.element_count));
}

// Calls body(output index, input offset) for each output of a tile.
template <class Body>
void for_each_output_of_tile(const ReduceArguments& a, int64_t tile, Body body) {
  const int64_t per_tile = reduce_outputs_per_tile(a), begin = tile * per_tile;
  const int64_t stride = a.kept.strides[1][a.kept.rank - 1];
  for_each_run(a.kept, begin, std::min(begin + per_tile, a.kept.element_count),
               [&](const auto& offsets, int64_t count) {
                 for (int64_t i = 0; i < count; ++i) body(offsets[0] + i, offsets[1] + i * stride);
               });
}

template <class V>
void reduce_rows_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const ReduceArguments*>(raw);
  const int64_t count = a.reduced.element_count;
  for_each_output_of_tile(a, tile, [&](int64_t to, int64_t from) {
    const float total = sum<V>(static_cast<const float*>(a.x) + from, count);
    static_cast<float*>(a.y)[to] = a.op == ReduceOp::mean ? total / float(count) : total;
  });
}

}  // namespace
}  // namespace ompipe::kernels
