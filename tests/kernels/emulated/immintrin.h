// Stands before the compiler's header of that name in the build of emulated instruction sets: the intrinsics of AVX-512
// and AVX-VNNI are SIMDe's functions, which use AVX2; the others stay what they are.
#pragma once

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32

// SIMDe 0.7.4 declares this one with the parameters of its masked form.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 simde_mm512_madd_epi16

// And has none of these: one half after the other with AVX2.
namespace emulated {

inline __m512 join(__m256 low, __m256 high) {
  return simde_mm512_insertf32x8(simde_mm512_castps256_ps512(low), high, 1);
}
inline __m512 cvtph_ps(__m256i x) {
  return join(_mm256_cvtph_ps(_mm256_castsi256_si128(x)), _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)));
}
inline __m512 cvtepi32_ps(__m512i x) {
  return join(_mm256_cvtepi32_ps(simde_mm512_castsi512_si256(x)),
              _mm256_cvtepi32_ps(simde_mm512_extracti64x4_epi64(x, 1)));
}
inline __m512i cvtepu8_epi32(__m128i x) {
  return simde_mm512_inserti64x4(simde_mm512_castsi256_si512(_mm256_cvtepu8_epi32(x)),
                                 _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)), 1);
}

}  // namespace emulated
#define _mm512_cvtph_ps emulated::cvtph_ps
#define _mm512_cvtepi32_ps emulated::cvtepi32_ps
#define _mm512_cvtepu8_epi32 emulated::cvtepu8_epi32
