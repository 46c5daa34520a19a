// A Vector8 from and to memory by the type of the elements there: float, or uint16_t for float16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ompipe/kernels/element_type.h"

namespace ompipe::kernels {
namespace {

template <class V>
V load_elements(const float* from) {
  return V::load(from);
}
template <class V>
V load_elements(const uint16_t* from) {
  return V::load_half(from);
}

// The partial ones touch the first `count` elements, 1 to 8, as V's do.
template <class V>
V load_elements(const float* from, int count) {
  return V::load_partial(from, count);
}
template <class V>
V load_elements(const uint16_t* from, int count) {
  return V::load_half_partial(from, count);
}
template <class V>
void store_elements(V value, float* to, int count) {
  value.store_partial(to, count);
}
template <class V>
void store_elements(V value, uint16_t* to, int count) {
  value.store_half_partial(to, count);
}

// Converts, to float16 by rounding to nearest even; between equal types every bit stays.
template <class V, class From, class To>
void copy_elements(const From* from, To* to, int64_t count) {
  if constexpr (std::is_same_v<From, To>) {
    std::copy_n(from, count, to);
  } else {
    for (int64_t i = 0; i < count; i += 8) {
      const int lanes = int(std::min<int64_t>(8, count - i));
      store_elements(load_elements<V>(from + i, lanes), to + i, lanes);
    }
  }
}

// f(an element) of the C++ type that holds `type`, f32 or f16.
template <class F>
void with_element(ElementType type, F f) {
  type == ElementType::f16 ? f(uint16_t()) : f(float());
}

}  // namespace
}  // namespace ompipe::kernels
