// Eight floats without vector instructions: the reference whose bits every other form of a Vector8 reproduces.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "half.h"

namespace ompipe::kernels {
namespace {

// The contract of every Vector8. Lanes are independent but in the reductions; fma rounds once; maximum and minimum
// give the second operand if the first compares false with it, so a NaN in the second wins (as maxps and minps do).
// Loads and stores need no alignment; the partial ones touch the first `count` elements only, and load zeros beyond.
struct Vector8Scalar {
  float lane[8];

  static Vector8Scalar broadcast(float value) { return {{value, value, value, value, value, value, value, value}}; }
  static Vector8Scalar load(const float* from) { return load_partial(from, 8); }
  static Vector8Scalar load_partial(const float* from, int count) {
    Vector8Scalar result = {};
    for (int i = 0; i < count; ++i) result.lane[i] = from[i];
    return result;
  }
  // float16, with the rounding and the NaNs of half.h.
  static Vector8Scalar load_half(const uint16_t* from) { return load_half_partial(from, 8); }
  static Vector8Scalar load_half_partial(const uint16_t* from, int count) {
    Vector8Scalar result = {};
    for (int i = 0; i < count; ++i) result.lane[i] = half_to_float(from[i]);
    return result;
  }
  void store_half(uint16_t* to) const { store_half_partial(to, 8); }
  void store_half_partial(uint16_t* to, int count) const {
    for (int i = 0; i < count; ++i) to[i] = float_to_half(lane[i]);
  }
  void store(float* to) const { store_partial(to, 8); }
  void store_partial(float* to, int count) const {
    for (int i = 0; i < count; ++i) to[i] = lane[i];
  }

  friend Vector8Scalar operator+(Vector8Scalar a, Vector8Scalar b) {
    return each(a, b, [](float x, float y) { return x + y; });
  }
  friend Vector8Scalar operator-(Vector8Scalar a, Vector8Scalar b) {
    return each(a, b, [](float x, float y) { return x - y; });
  }
  friend Vector8Scalar operator*(Vector8Scalar a, Vector8Scalar b) {
    return each(a, b, [](float x, float y) { return x * y; });
  }
  friend Vector8Scalar operator/(Vector8Scalar a, Vector8Scalar b) {
    return each(a, b, [](float x, float y) { return x / y; });
  }
  static Vector8Scalar fma(Vector8Scalar a, Vector8Scalar b, Vector8Scalar c) {
    for (int i = 0; i < 8; ++i) c.lane[i] = std::fma(a.lane[i], b.lane[i], c.lane[i]);
    return c;
  }
  static Vector8Scalar maximum(Vector8Scalar a, Vector8Scalar b) {
    return each(a, b, [](float x, float y) { return x > y ? x : y; });
  }
  static Vector8Scalar minimum(Vector8Scalar a, Vector8Scalar b) {
    return each(a, b, [](float x, float y) { return x < y ? x : y; });
  }
  static Vector8Scalar sqrt(Vector8Scalar a) {
    return each(a, a, [](float x, float) { return std::sqrt(x); });
  }
  static Vector8Scalar abs(Vector8Scalar a) {
    return each(a, a, [](float x, float) { return std::fabs(x); });
  }
  static Vector8Scalar negate(Vector8Scalar a) {
    return each(a, a, [](float x, float) { return -x; });
  }
  static Vector8Scalar copysign(Vector8Scalar magnitude, Vector8Scalar sign) {
    return each(magnitude, sign, [](float x, float y) { return std::copysign(x, y); });
  }
  // a < b ? then : otherwise, lane by lane; false for NaN.
  static Vector8Scalar select_less(Vector8Scalar a, Vector8Scalar b, Vector8Scalar then, Vector8Scalar otherwise) {
    for (int i = 0; i < 8; ++i) otherwise.lane[i] = a.lane[i] < b.lane[i] ? then.lane[i] : otherwise.lane[i];
    return otherwise;
  }
  // a if it is a NaN, else b.
  static Vector8Scalar keep_nan(Vector8Scalar a, Vector8Scalar b) {
    return each(a, b, [](float x, float y) { return x != x ? x : y; });
  }
  // 2^n for whole n in [-126, 127].
  static Vector8Scalar pow2(Vector8Scalar n) {
    return each(n, n, [](float x, float) {
      return std::bit_cast<float>((std::bit_cast<uint32_t>(x + 12582912.0f) << 23) + 0x3F800000u);
    });
  }
  // ((l0 + l1) + (l2 + l3)) + ((l4 + l5) + (l6 + l7)).
  float sum() const {
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
  float largest() const {
    float result = lane[0];
    for (int i = 1; i < 8; ++i) result = result > lane[i] ? result : lane[i];
    return result;
  }
  // Lane i of the result is a[i].sum().
  static Vector8Scalar sums(const Vector8Scalar (&a)[8]) {
    Vector8Scalar result;
    for (int i = 0; i < 8; ++i) result.lane[i] = a[i].sum();
    return result;
  }

 private:
  template <class F>
  static Vector8Scalar each(Vector8Scalar a, Vector8Scalar b, F f) {
    for (int i = 0; i < 8; ++i) a.lane[i] = f(a.lane[i], b.lane[i]);
    return a;
  }
};

}  // namespace
}  // namespace ompipe::kernels
