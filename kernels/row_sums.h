// Sums over a row of floats, in the one order that every kernel and instruction set uses.
//
// Element i goes to lane i mod 32, in rising order; the 32 lanes are four vectors of eight, added as (0 + 1) + (2 + 3),
// and the last eight lanes as Vector8::sum does.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ompipe::kernels {
namespace {

// Sum of the terms that add_term(lanes, x, valid) adds for each vector x of the row. Of the last vector only `valid`
// elements belong to the row, the others are 0 and must add nothing.
template <class V, class AddTerm>
float sum_terms(const float* row, int64_t count, AddTerm add_term) {
  V lanes[4] = {V::broadcast(0.0f), V::broadcast(0.0f), V::broadcast(0.0f), V::broadcast(0.0f)};
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    for (int j = 0; j < 4; ++j) lanes[j] = add_term(lanes[j], V::load(row + i + 8 * j), 8);
  }
  for (int j = 0; i < count; i += 8, ++j) {
    const int valid = int(std::min<int64_t>(8, count - i));
    lanes[j] = add_term(lanes[j], V::load_partial(row + i, valid), valid);
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])).sum();
}

template <class V>
float sum(const float* row, int64_t count) {
  return sum_terms<V>(row, count, [](V lanes, V x, int) { return lanes + x; });
}

template <class V>
float sum_of_squares(const float* row, int64_t count) {
  return sum_terms<V>(row, count, [](V lanes, V x, int) { return V::fma(x, x, lanes); });
}

// Sum of (x - mean)^2.
template <class V>
float sum_of_squared_deviations(const float* row, int64_t count, float mean) {
  const V center = V::broadcast(mean);
  return sum_terms<V>(row, count, [center](V lanes, V x, int valid) {
    V deviation = x - center;
    if (valid < 8) {
      float kept[8];
      deviation.store(kept);
      deviation = V::load_partial(kept, valid);
    }
    return V::fma(deviation, deviation, lanes);
  });
}

}  // namespace
}  // namespace ompipe::kernels
