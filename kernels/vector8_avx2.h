// Eight floats in one AVX2 register, for files compiled with -mavx2 -mfma -mf16c. The contract stands in
// vector8_scalar.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace ompipe::kernels {
namespace {

struct Vector8Avx2 {
  __m256 value;

  static Vector8Avx2 broadcast(float value) { return {_mm256_set1_ps(value)}; }
  static Vector8Avx2 load(const float* from) { return {_mm256_loadu_ps(from)}; }
  static Vector8Avx2 load_partial(const float* from, int count) { return {_mm256_maskload_ps(from, mask(count))}; }
  static Vector8Avx2 load_half(const uint16_t* from) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
  }
  // Full vectors come here too, where a loop's last one may be partial.
  static Vector8Avx2 load_half_partial(const uint16_t* from, int count) {
    if (count == 8) return load_half(from);
    uint16_t lanes[8] = {};
    for (int i = 0; i < count; ++i) lanes[i] = from[i];
    return load_half(lanes);
  }
  void store_half(uint16_t* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  void store_half_partial(uint16_t* to, int count) const {
    if (count == 8) return store_half(to);
    uint16_t lanes[8];
    store_half(lanes);
    for (int i = 0; i < count; ++i) to[i] = lanes[i];
  }
  void store(float* to) const { _mm256_storeu_ps(to, value); }
  void store_partial(float* to, int count) const { _mm256_maskstore_ps(to, mask(count), value); }

  friend Vector8Avx2 operator+(Vector8Avx2 a, Vector8Avx2 b) { return {_mm256_add_ps(a.value, b.value)}; }
  friend Vector8Avx2 operator-(Vector8Avx2 a, Vector8Avx2 b) { return {_mm256_sub_ps(a.value, b.value)}; }
  friend Vector8Avx2 operator*(Vector8Avx2 a, Vector8Avx2 b) { return {_mm256_mul_ps(a.value, b.value)}; }
  friend Vector8Avx2 operator/(Vector8Avx2 a, Vector8Avx2 b) { return {_mm256_div_ps(a.value, b.value)}; }
  static Vector8Avx2 fma(Vector8Avx2 a, Vector8Avx2 b, Vector8Avx2 c) {
    return {_mm256_fmadd_ps(a.value, b.value, c.value)};
  }
  static Vector8Avx2 maximum(Vector8Avx2 a, Vector8Avx2 b) { return {_mm256_max_ps(a.value, b.value)}; }
  static Vector8Avx2 minimum(Vector8Avx2 a, Vector8Avx2 b) { return {_mm256_min_ps(a.value, b.value)}; }
  static Vector8Avx2 sqrt(Vector8Avx2 a) { return {_mm256_sqrt_ps(a.value)}; }
  static Vector8Avx2 abs(Vector8Avx2 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.value)}; }
  static Vector8Avx2 negate(Vector8Avx2 a) { return {_mm256_xor_ps(_mm256_set1_ps(-0.0f), a.value)}; }
  static Vector8Avx2 copysign(Vector8Avx2 magnitude, Vector8Avx2 sign) {
    return {_mm256_or_ps(abs(magnitude).value, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign.value))};
  }
  static Vector8Avx2 select_less(Vector8Avx2 a, Vector8Avx2 b, Vector8Avx2 then, Vector8Avx2 otherwise) {
    return {_mm256_blendv_ps(otherwise.value, then.value, _mm256_cmp_ps(a.value, b.value, _CMP_LT_OQ))};
  }
  static Vector8Avx2 keep_nan(Vector8Avx2 a, Vector8Avx2 b) {
    return {_mm256_blendv_ps(b.value, a.value, _mm256_cmp_ps(a.value, a.value, _CMP_UNORD_Q))};
  }
  static Vector8Avx2 pow2(Vector8Avx2 n) {
    const __m256i bits = _mm256_castps_si256(_mm256_add_ps(n.value, _mm256_set1_ps(12582912.0f)));
    return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(bits, 23), _mm256_set1_epi32(0x3F800000)))};
  }
  float sum() const {
    const __m256 pairs = _mm256_hadd_ps(value, value);
    const __m256 quads = _mm256_hadd_ps(pairs, pairs);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1)));
  }
  float largest() const {
    float lanes[8];
    store(lanes);
    float result = lanes[0];
    for (int i = 1; i < 8; ++i) result = result > lanes[i] ? result : lanes[i];
    return result;
  }
  static Vector8Avx2 sums(const Vector8Avx2 (&a)[8]) {
    const __m256 low = quads(a[0], a[1], a[2], a[3]);
    const __m256 high = quads(a[4], a[5], a[6], a[7]);
    return {_mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31))};
  }

 private:
  static __m256i mask(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  // In each half of the register, the sums of that half of a, b, c and d.
  static __m256 quads(Vector8Avx2 a, Vector8Avx2 b, Vector8Avx2 c, Vector8Avx2 d) {
    return _mm256_hadd_ps(_mm256_hadd_ps(a.value, b.value), _mm256_hadd_ps(c.value, d.value));
  }
};

}  // namespace
}  // namespace ompipe::kernels
