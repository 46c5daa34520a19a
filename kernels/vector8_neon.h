// Eight floats in two registers of aarch64. The contract stands in vector8_scalar.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ompipe::kernels {
namespace {

struct Vector8Neon {
  float32x4_t low, high;

  static Vector8Neon broadcast(float value) { return {vdupq_n_f32(value), vdupq_n_f32(value)}; }
  static Vector8Neon load(const float* from) { return {vld1q_f32(from), vld1q_f32(from + 4)}; }
  static Vector8Neon load_partial(const float* from, int count) {
    float lanes[8] = {};
    for (int i = 0; i < count; ++i) lanes[i] = from[i];
    return load(lanes);
  }
  static Vector8Neon load_half(const uint16_t* from) {
    const uint16x8_t halves = vld1q_u16(from);
    return {vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(halves))),
            vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(halves)))};
  }
  // Full vectors come here too, where a loop's last one may be partial.
  static Vector8Neon load_half_partial(const uint16_t* from, int count) {
    if (count == 8) return load_half(from);
    uint16_t lanes[8] = {};
    for (int i = 0; i < count; ++i) lanes[i] = from[i];
    return load_half(lanes);
  }
  void store_half(uint16_t* to) const {
    vst1q_u16(to, vcombine_u16(vreinterpret_u16_f16(vcvt_f16_f32(low)), vreinterpret_u16_f16(vcvt_f16_f32(high))));
  }
  void store_half_partial(uint16_t* to, int count) const {
    if (count == 8) return store_half(to);
    uint16_t lanes[8];
    store_half(lanes);
    for (int i = 0; i < count; ++i) to[i] = lanes[i];
  }
  void store(float* to) const {
    vst1q_f32(to, low);
    vst1q_f32(to + 4, high);
  }
  void store_partial(float* to, int count) const {
    float lanes[8];
    store(lanes);
    for (int i = 0; i < count; ++i) to[i] = lanes[i];
  }

  friend Vector8Neon operator+(Vector8Neon a, Vector8Neon b) {
    return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
  }
  friend Vector8Neon operator-(Vector8Neon a, Vector8Neon b) {
    return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
  }
  friend Vector8Neon operator*(Vector8Neon a, Vector8Neon b) {
    return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
  }
  friend Vector8Neon operator/(Vector8Neon a, Vector8Neon b) {
    return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
  }
  static Vector8Neon fma(Vector8Neon a, Vector8Neon b, Vector8Neon c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
  }
  // fmax and fmin of the hardware treat NaN otherwise.
  static Vector8Neon maximum(Vector8Neon a, Vector8Neon b) { return select_less(b, a, a, b); }
  static Vector8Neon minimum(Vector8Neon a, Vector8Neon b) { return select_less(a, b, a, b); }
  static Vector8Neon sqrt(Vector8Neon a) { return {vsqrtq_f32(a.low), vsqrtq_f32(a.high)}; }
  static Vector8Neon abs(Vector8Neon a) { return {vabsq_f32(a.low), vabsq_f32(a.high)}; }
  static Vector8Neon negate(Vector8Neon a) { return {vnegq_f32(a.low), vnegq_f32(a.high)}; }
  static Vector8Neon copysign(Vector8Neon magnitude, Vector8Neon sign) {
    const uint32x4_t mask = vdupq_n_u32(0x80000000u);
    return {vbslq_f32(mask, sign.low, magnitude.low), vbslq_f32(mask, sign.high, magnitude.high)};
  }
  static Vector8Neon select_less(Vector8Neon a, Vector8Neon b, Vector8Neon then, Vector8Neon otherwise) {
    return {vbslq_f32(vcltq_f32(a.low, b.low), then.low, otherwise.low),
            vbslq_f32(vcltq_f32(a.high, b.high), then.high, otherwise.high)};
  }
  static Vector8Neon keep_nan(Vector8Neon a, Vector8Neon b) {
    return {vbslq_f32(vceqq_f32(a.low, a.low), b.low, a.low), vbslq_f32(vceqq_f32(a.high, a.high), b.high, a.high)};
  }
  static Vector8Neon pow2(Vector8Neon n) { return {pow2(n.low), pow2(n.high)}; }
  float sum() const {
    const float32x4_t pairs = vpaddq_f32(low, high);
    return vgetq_lane_f32(pairs, 0) + vgetq_lane_f32(pairs, 1) + (vgetq_lane_f32(pairs, 2) + vgetq_lane_f32(pairs, 3));
  }
  float largest() const {
    float lanes[8];
    store(lanes);
    float result = lanes[0];
    for (int i = 1; i < 8; ++i) result = result > lanes[i] ? result : lanes[i];
    return result;
  }
  static Vector8Neon sums(const Vector8Neon (&a)[8]) {
    return {sums(a[0], a[1], a[2], a[3]), sums(a[4], a[5], a[6], a[7])};
  }

 private:
  static float32x4_t pow2(float32x4_t n) {
    const uint32x4_t bits = vreinterpretq_u32_f32(vaddq_f32(n, vdupq_n_f32(12582912.0f)));
    return vreinterpretq_f32_u32(vaddq_u32(vshlq_n_u32(bits, 23), vdupq_n_u32(0x3F800000u)));
  }
  static float32x4_t sums(Vector8Neon a, Vector8Neon b, Vector8Neon c, Vector8Neon d) {
    return vpaddq_f32(vpaddq_f32(vpaddq_f32(a.low, a.high), vpaddq_f32(b.low, b.high)),
                      vpaddq_f32(vpaddq_f32(c.low, c.high), vpaddq_f32(d.low, d.high)));
  }
};

}  // namespace
}  // namespace ompipe::kernels
