// What the products with packed weights need of a vector, sixteen lanes wide, for AVX-512 F, BW, VL and DQ: a panel's
// columns or those of two groups in one register. vec_scalar.h says what each means; loads from two places fill half a
// register from each.
//
// Included by *_avx512*.cpp only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace ompipe::kernels {
namespace {

struct VecAvx512 {
  static constexpr int kLanes = 16;
  static constexpr int kStreams = 4;                          // memory streams of a lone row
  static constexpr int kFloatRows = 8, kRowsOfTwoPanels = 8;  // 8 x 32 floats are 16 accumulators of 32 registers
  using Floats = __m512;
  using Ints = __m512i;
  using Bytes = __m512i;

  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats broadcast(float x) { return _mm512_set1_ps(x); }
  static Floats load(const void* p) { return _mm512_loadu_ps(static_cast<const float*>(p)); }
  static Floats load(const void* p, const void* q) { return _mm512_castsi512_ps(load_bytes(p, q)); }
  static void store(float* p, Floats x) { _mm512_storeu_ps(p, x); }
  static Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static float scalar_fma(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
  }

  static float half_to_float(uint16_t half) { return _cvtsh_ss(half); }
  static __m128i load_64(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
  static Floats load_half(const void* p, const void* q) {
    const __m128i low = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return _mm512_cvtph_ps(
        _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_loadu_si128(static_cast<const __m128i*>(q)), 1));
  }
  static void store_half(void* p, Floats x) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
    __m128i* to = static_cast<__m128i*>(p);
    _mm_storeu_si128(to, _mm256_cvtps_ph(_mm512_castps512_ps256(x), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(to + 1, _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
  }
  static Ints int_broadcast(int32_t x) { return _mm512_set1_epi32(x); }
  static Ints load_bytes_as_ints(const void* p, const void* q) {
    return _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(load_64(p), load_64(q)));
  }
  static Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
  static Ints int_add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static void int_store(int32_t* p, Ints x) { _mm512_storeu_si512(p, x); }
  static Ints int_sub(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  static Ints int_mul_small(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }

  static Bytes load_bytes(const void* p, const void* q) {
    const __m256i low = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_loadu_si256(static_cast<const __m256i*>(q)), 1);
  }
  static Bytes low_nibbles(Bytes x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
  static Bytes high_nibbles(Bytes x) { return low_nibbles(_mm512_srli_epi16(x, 4)); }
  template <int index>
  static Bytes bit_pairs(Bytes x) {
    return _mm512_and_si512(_mm512_srli_epi16(x, 2 * index), _mm512_set1_epi8(3));
  }
  template <int index>
  static Ints byte_of_lanes(Bytes x) {
    if constexpr (index == 3) return _mm512_srli_epi32(x, 24);
    return _mm512_and_si512(_mm512_srli_epi32(x, 8 * index), _mm512_set1_epi32(255));
  }

  static constexpr bool kDotsOfBytes = false;
  using Dots = __m512i;  // of 16-bit lanes
  static Dots first_dot(Bytes x, const int8_t* p) { return _mm512_maddubs_epi16(x, four_bytes(p)); }
  static Dots add_dot(Dots sum, Bytes x, const int8_t* p) { return _mm512_add_epi16(sum, first_dot(x, p)); }
  static Ints sum_dots(Dots sum) { return _mm512_madd_epi16(sum, _mm512_set1_epi16(1)); }
  static Ints sum_dots_times_16(Dots sum) { return _mm512_madd_epi16(sum, _mm512_set1_epi16(16)); }
  static Ints add_bytes(Ints sum, Bytes x) {
    return int_add(sum, sum_dots(_mm512_maddubs_epi16(x, _mm512_set1_epi8(1))));
  }

  static void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

 protected:
  static __m512i four_bytes(const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
  }
};

}  // namespace
}  // namespace ompipe::kernels
