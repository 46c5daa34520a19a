// The vector operations that kernel templates are written in, for AVX2 with FMA and F16C. vec_scalar.h says what each
// means.
//
// Included by *_avx2.cpp and *_avx512.cpp only. The types have internal linkage, so that templates instantiated with
// them do too: code that the linker could share with a baseline file must not hold AVX2 instructions.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace ompipe::kernels {
namespace {

struct VecAvx2 {
  static constexpr int kLanes = 8;
  static constexpr int kStreams = 4;                          // memory streams of a lone row
  static constexpr int kFloatRows = 6, kRowsOfTwoPanels = 3;  // 6 x 16 floats are 12 accumulators of 16 registers
  using Floats = __m256;
  using Ints = __m256i;
  using Shorts = __m256i;
  using Bytes = __m256i;

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats broadcast(float x) { return _mm256_set1_ps(x); }
  static Floats load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static void store(float* p, Floats x) { _mm256_storeu_ps(p, x); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static float scalar_fma(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
  }

  static __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  // `bytes` bytes, 4, 8 or 16, and zeros.
  template <int bytes>
  static __m128i load_unit(const void* p) {
    if constexpr (bytes == 4) return _mm_loadu_si32(p);
    if constexpr (bytes == 8) return load_64(p);
    return load_128(p);
  }
  // 16 bytes of each of eight columns, i and i + 4 in row i, as four vectors of 4 bytes a column.
  static void store_columns(const __m256i (&rows)[4], std::byte* out) {
    const __m256i low01 = _mm256_unpacklo_epi32(rows[0], rows[1]), low23 = _mm256_unpacklo_epi32(rows[2], rows[3]);
    const __m256i high01 = _mm256_unpackhi_epi32(rows[0], rows[1]), high23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
    __m256i* to = reinterpret_cast<__m256i*>(out);
    _mm256_storeu_si256(to, _mm256_unpacklo_epi64(low01, low23));
    _mm256_storeu_si256(to + 1, _mm256_unpackhi_epi64(low01, low23));
    _mm256_storeu_si256(to + 2, _mm256_unpacklo_epi64(high01, high23));
    _mm256_storeu_si256(to + 3, _mm256_unpackhi_epi64(high01, high23));
  }
  static __m128i load_64(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
  static float half_to_float(uint16_t half) { return _cvtsh_ss(half); }
  static Floats load_half(const void* p) { return _mm256_cvtph_ps(load_128(p)); }
  static Floats load_bfloat(const void* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p)), 16));
  }

  static void store_half(void* p, Floats x) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }

  static Ints int_broadcast(int32_t x) { return _mm256_set1_epi32(x); }
  static Ints load_bytes_as_ints(const void* p) { return _mm256_cvtepu8_epi32(load_64(p)); }
  static Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
  static Ints int_add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static void int_store(int32_t* p, Ints x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
  static Ints int_sub(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
  static Ints int_mul_small(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }

  static Bytes load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static Bytes low_nibbles(Bytes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
  static Bytes high_nibbles(Bytes x) { return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)); }
  template <int index>
  static Bytes bit_pairs(Bytes x) {
    return _mm256_and_si256(_mm256_srli_epi16(x, 2 * index), _mm256_set1_epi8(3));
  }
  template <int index>
  static Ints byte_of_lanes(Bytes x) {
    constexpr int zeros = int(0x80808000);  // bytes of a selector with the sign bit set
    return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(_mm_set_epi32(zeros | (12 + index), zeros | (8 + index),
                                                                            zeros | (4 + index), zeros | index)));
  }

  // vpmaddubsw saturates above 32767; two products of a nibble and an int8 stay below 3841.
  static Shorts dot_pairs(Bytes x, const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm256_maddubs_epi16(x, _mm256_set1_epi32(four));
  }
  static Shorts short_add(Shorts a, Shorts b) { return _mm256_add_epi16(a, b); }
  static Ints sum_pairs(Shorts x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
  static constexpr bool kDotsOfBytes = false;
  using Dots = Shorts;
  static Dots first_dot(Bytes x, const int8_t* p) { return dot_pairs(x, p); }
  static Dots add_dot(Dots sum, Bytes x, const int8_t* p) { return short_add(sum, dot_pairs(x, p)); }
  static Ints sum_dots(Dots sum) { return sum_pairs(sum); }

  static Ints sum_dots_times_16(Shorts x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(16)); }
  static Ints add_bytes(Ints sum, Bytes x) {
    return int_add(sum, sum_pairs(_mm256_maddubs_epi16(x, _mm256_set1_epi8(1))));
  }

  // Sums stay below 2^15 in 16 bits until a lane holds 16 products, half a unit of 32 (15 * 127 * 16 = 30480).
  template <int unit, int rows>
  [[gnu::always_inline]] static void dot_spans(const std::byte* columns, int64_t stride, const int8_t* q,
                                               int64_t row_stride, Ints (&dots)[rows][64 / unit]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i fours[rows][2][32 / unit];  // of columns 0 to 3, and 4 to 7: one unit in each half
#pragma GCC unroll 2
    for (int four = 0; four < 2; ++four) {
      const std::byte* from = columns + 4 * four * stride;
      Shorts columns_dots[rows][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Bytes both = load_bytes(from + j * stride);
        const Bytes low = low_nibbles(both), high = high_nibbles(both);
#pragma GCC unroll 3
        for (int r = 0; r < rows; ++r) {
          const int8_t* row = q + r * row_stride;
          columns_dots[r][j] = _mm256_add_epi16(_mm256_maddubs_epi16(low, load_bytes(row)),
                                                _mm256_maddubs_epi16(high, load_bytes(row + 32)));
        }
      }
#pragma GCC unroll 3
      for (int r = 0; r < rows; ++r) {
        const __m256i first = _mm256_hadd_epi16(columns_dots[r][0], columns_dots[r][1]);
        const __m256i second = _mm256_hadd_epi16(columns_dots[r][2], columns_dots[r][3]);
        if constexpr (unit == 32) {
          fours[r][four][0] = _mm256_madd_epi16(_mm256_hadd_epi16(first, second), ones);
        } else {
          const __m256 left = _mm256_castsi256_ps(_mm256_madd_epi16(first, ones));
          const __m256 right = _mm256_castsi256_ps(_mm256_madd_epi16(second, ones));
          fours[r][four][0] = _mm256_castps_si256(_mm256_shuffle_ps(left, right, _MM_SHUFFLE(2, 0, 2, 0)));
          fours[r][four][1] = _mm256_castps_si256(_mm256_shuffle_ps(left, right, _MM_SHUFFLE(3, 1, 3, 1)));
        }
      }
    }
#pragma GCC unroll 3
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int u = 0; u < 32 / unit; ++u) {
        dots[r][u] = _mm256_permute2x128_si256(fours[r][0][u], fours[r][1][u], 0x20);
        dots[r][32 / unit + u] = _mm256_permute2x128_si256(fours[r][0][u], fours[r][1][u], 0x31);
      }
    }
  }

  static float max_magnitude(const float* p, int count) {
    __m256i largest = _mm256_setzero_si256();
    for (int i = 0; i < count; ++i) {
      const __m256i bits = _mm256_castps_si256(load(p + 8 * i));
      largest = _mm256_max_epu32(largest, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
    }
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtss_f32(_mm_castsi128_ps(four));
  }
  static int32_t quantise(const float* p, int count, float scale, int8_t* q) {
    __m256i sums = _mm256_setzero_si256();
    for (int i = 0; i < count; ++i) {
      const __m256 scaled = _mm256_mul_ps(load(p + 8 * i), _mm256_set1_ps(scale));
      const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), scaled);
      const __m256 fits = _mm256_cmp_ps(magnitude, _mm256_set1_ps(127.25f), _CMP_LE_OQ);
      const __m256i rounded = _mm256_castps_si256(_mm256_blendv_ps(
          _mm256_castsi256_ps(_mm256_set1_epi32(-127)), _mm256_castsi256_ps(_mm256_cvtps_epi32(scaled)), fits));
      sums = _mm256_add_epi32(sums, rounded);
      const __m128i shorts = _mm_packs_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(q + 8 * i), _mm_packs_epi16(shorts, shorts));
    }
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(four);
  }

  template <int unit>
  static void interleave_unit(const std::byte* columns, int64_t stride, std::byte* unit_out) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i rows[4];  // of columns i and i + 4: bytes k | k + unit / 2 << 4
    for (int i = 0; i < 4; ++i) {
      const void *left = columns + i * stride, *right = columns + (i + 4) * stride;
      const __m256i both = unit == 16 ? _mm256_set_m128i(load_64(right), load_64(left))
                                      : _mm256_set_m128i(load_128(right), load_128(left));
      const __m256i even = _mm256_and_si256(both, nibble);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
      const __m256i first = _mm256_unpacklo_epi8(even, odd);
      const __m256i second = unit == 16 ? _mm256_srli_si256(first, 8) : _mm256_unpackhi_epi8(even, odd);
      rows[i] = _mm256_or_si256(first, _mm256_slli_epi16(second, 4));
    }
    if constexpr (unit == 32) return store_columns(rows, unit_out);
    const __m256i pairs01 = _mm256_unpacklo_epi32(rows[0], rows[1]), pairs23 = _mm256_unpacklo_epi32(rows[2], rows[3]);
    __m256i* out = reinterpret_cast<__m256i*>(unit_out);
    _mm256_storeu_si256(out, _mm256_unpacklo_epi64(pairs01, pairs23));
    _mm256_storeu_si256(out + 1, _mm256_unpackhi_epi64(pairs01, pairs23));
  }
  template <int unit>
  static void interleave_pairs(const std::byte* columns, int64_t stride, std::byte* out) {
    __m256i rows[4];  // of columns i and i + 4
    for (int i = 0; i < 4; ++i) {
      const __m256i both =
          _mm256_set_m128i(load_unit<unit / 4>(columns + (i + 4) * stride), load_unit<unit / 4>(columns + i * stride));
      // Elements in order, one a byte: 0 to 15 and 16 to 31.
      const __m256i even = _mm256_unpacklo_epi8(bit_pairs<0>(both), bit_pairs<1>(both));
      const __m256i odd = _mm256_unpacklo_epi8(bit_pairs<2>(both), bit_pairs<3>(both));
      __m256i first = _mm256_unpacklo_epi16(even, odd);
      if constexpr (unit == 32) {
        first = _mm256_or_si256(first, _mm256_slli_epi16(_mm256_unpackhi_epi16(even, odd), 4));
      } else {
        first = _mm256_or_si256(first, _mm256_slli_epi16(_mm256_srli_si256(first, 8), 4));
      }
      rows[i] = _mm256_or_si256(first, _mm256_slli_epi16(_mm256_srli_si256(first, unit / 4), 2));
    }
    const __m256i pairs01 = _mm256_unpacklo_epi32(rows[0], rows[1]), pairs23 = _mm256_unpacklo_epi32(rows[2], rows[3]);
    __m256i* to = reinterpret_cast<__m256i*>(out);
    _mm256_storeu_si256(to, _mm256_unpacklo_epi64(pairs01, pairs23));
    if constexpr (unit == 32) _mm256_storeu_si256(to + 1, _mm256_unpackhi_epi64(pairs01, pairs23));
  }
  template <int unit>
  static void interleave_bytes(const std::byte* columns, int64_t stride, std::byte* out) {
    for (int k = 0; k < unit; k += 16, out += 128) {
      __m256i rows[4];  // 16 bytes of columns i and i + 4
      for (int i = 0; i < 4; ++i) {
        rows[i] = _mm256_set_m128i(load_128(columns + (i + 4) * stride + k), load_128(columns + i * stride + k));
      }
      store_columns(rows, out);
    }
  }

  static void interleave_rows(const std::byte* rows, int64_t stride, std::byte flip, std::byte* out) {
    const __m128i first = _mm_unpacklo_epi8(load_64(rows), load_64(rows + stride));
    const __m128i second = _mm_unpacklo_epi8(load_64(rows + 2 * stride), load_64(rows + 3 * stride));
    const __m256i all = _mm256_set_m128i(_mm_unpackhi_epi16(first, second), _mm_unpacklo_epi16(first, second));
    const __m256i flips = _mm256_set1_epi8(static_cast<char>(flip));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_xor_si256(all, flips));
  }
  static int32_t signed_bytes(const std::byte* p, int count, int flip, int8_t* q) {
    std::byte padded[32];
    if (count < 32) {
      __builtin_memset(padded, flip, sizeof padded);
      __builtin_memcpy(padded, p, static_cast<size_t>(count));
      p = padded;
    }
    const __m256i bytes = _mm256_xor_si256(load_bytes(p), _mm256_set1_epi8(static_cast<char>(flip)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
    const __m256i shifted = _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(128)));  // q + 128
    const __m256i sums = _mm256_sad_epu8(shifted, _mm256_setzero_si256());
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 2) - 32 * 128;
  }

  static void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
  static void stream(float* p, Floats x) { _mm256_stream_ps(p, x); }
  static void finish_streams() { _mm_sfence(); }

  static void transpose(Floats (&rows)[8]) {
    __m256 pairs[8], quads[8];
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
      pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
      quads[4 * i] = _mm256_shuffle_ps(pairs[4 * i], pairs[4 * i + 2], _MM_SHUFFLE(1, 0, 1, 0));
      quads[4 * i + 1] = _mm256_shuffle_ps(pairs[4 * i], pairs[4 * i + 2], _MM_SHUFFLE(3, 2, 3, 2));
      quads[4 * i + 2] = _mm256_shuffle_ps(pairs[4 * i + 1], pairs[4 * i + 3], _MM_SHUFFLE(1, 0, 1, 0));
      quads[4 * i + 3] = _mm256_shuffle_ps(pairs[4 * i + 1], pairs[4 * i + 3], _MM_SHUFFLE(3, 2, 3, 2));
    }
    for (int i = 0; i < 4; ++i) {
      rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
      rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
  }
};

}  // namespace
}  // namespace ompipe::kernels
