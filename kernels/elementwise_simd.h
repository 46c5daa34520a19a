// float32 element-wise kernels, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cmath>

#include "ompipe/kernels/elementwise.h"
#include "strided_runs.h"
#include "vector_math.h"

namespace ompipe::kernels {
namespace {

// Up to eight elements `stride` apart; lanes beyond `count` are 0.
template <class V>
V load_strided(const float* from, int64_t stride, int count) {
  if (stride == 1) return count == 8 ? V::load(from) : V::load_partial(from, count);
  if (stride == 0) return V::broadcast(*from);
  float lanes[8] = {};
  for (int i = 0; i < count; ++i) lanes[i] = from[i * stride];
  return V::load(lanes);
}

template <class V>
void store_strided(V value, float* to, int64_t stride, int count) {
  if (stride == 1) return count == 8 ? value.store(to) : value.store_partial(to, count);
  float lanes[8];
  value.store(lanes);
  for (int i = 0; i < count; ++i) to[i * stride] = lanes[i];
}

template <class V, UnaryOp op>
V apply(V x) {
  if constexpr (op == UnaryOp::abs) return V::abs(x);
  if constexpr (op == UnaryOp::neg) return V::negate(x);
  if constexpr (op == UnaryOp::relu) return V::maximum(V::broadcast(0.0f), x);
  if constexpr (op == UnaryOp::reciprocal) return V::broadcast(1.0f) / x;
  if constexpr (op == UnaryOp::sqrt) return V::sqrt(x);
  if constexpr (op == UnaryOp::exp) return exp(x);
  if constexpr (op == UnaryOp::sigmoid) return sigmoid(x);
  if constexpr (op == UnaryOp::tanh) return tanh(x);
  if constexpr (op == UnaryOp::erf) return erf(x);
  if constexpr (op == UnaryOp::gelu) return gelu(x);
  if constexpr (op == UnaryOp::gelu_tanh) return gelu_tanh(x);
}

template <class V>
V power(V base, V exponent) {
  float b[8], e[8];
  base.store(b);
  exponent.store(e);
  for (int i = 0; i < 8; ++i) {
    b[i] = e[i] == 2.0f ? b[i] * b[i] : e[i] == 0.5f && b[i] >= 0.0f ? std::sqrt(b[i]) : std::pow(b[i], e[i]);
  }
  return V::load(b);
}

template <class V, BinaryOp op>
V apply(V a, V b) {
  if constexpr (op == BinaryOp::add) return a + b;
  if constexpr (op == BinaryOp::sub) return a - b;
  if constexpr (op == BinaryOp::mul) return a * b;
  if constexpr (op == BinaryOp::div) return a / b;
  if constexpr (op == BinaryOp::pow) return power(a, b);
  if constexpr (op == BinaryOp::min) return V::keep_nan(a, V::minimum(a, b));
  if constexpr (op == BinaryOp::max) return V::keep_nan(a, V::maximum(a, b));
}

template <class V, UnaryOp op>
void unary_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& arguments = *static_cast<const ElementwiseArguments*>(raw);
  const StridedLoop& loop = arguments.loop;
  const int inner = loop.rank - 1;
  const int64_t to_stride = loop.strides[0][inner], from_stride = loop.strides[1][inner];
  for_each_run_of_tile(loop, tile, [&](const auto& offsets, int64_t count) {
    float* to = static_cast<float*>(arguments.output) + offsets[0];
    const float* from = static_cast<const float*>(arguments.inputs[0]) + offsets[1];
    for (int64_t i = 0; i < count; i += 8) {
      const int lanes = int(std::min<int64_t>(8, count - i));
      const V x = load_strided<V>(from + i * from_stride, from_stride, lanes);
      store_strided(apply<V, op>(x), to + i * to_stride, to_stride, lanes);
    }
  });
}

template <class V, BinaryOp op>
void binary_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& arguments = *static_cast<const ElementwiseArguments*>(raw);
  const StridedLoop& loop = arguments.loop;
  const int inner = loop.rank - 1;
  const int64_t to_stride = loop.strides[0][inner], a_stride = loop.strides[1][inner];
  const int64_t b_stride = loop.strides[2][inner];
  for_each_run_of_tile(loop, tile, [&](const auto& offsets, int64_t count) {
    float* to = static_cast<float*>(arguments.output) + offsets[0];
    const float* a = static_cast<const float*>(arguments.inputs[0]) + offsets[1];
    const float* b = static_cast<const float*>(arguments.inputs[1]) + offsets[2];
    for (int64_t i = 0; i < count; i += 8) {
      const int lanes = int(std::min<int64_t>(8, count - i));
      const V x = load_strided<V>(a + i * a_stride, a_stride, lanes);
      const V y = load_strided<V>(b + i * b_stride, b_stride, lanes);
      store_strided(apply<V, op>(x, y), to + i * to_stride, to_stride, lanes);
    }
  });
}

}  // namespace
}  // namespace ompipe::kernels
