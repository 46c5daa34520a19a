// The vector operations that kernel templates are written in, in portable C++: the reference that every other ISA
// equals.
//
// Included by *_scalar.cpp only. The types have internal linkage, so that templates instantiated with them do too.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "half.h"

namespace ompipe::kernels {
namespace {

struct VecScalar {
  static constexpr int kLanes = 8;
  static constexpr int kStreams = 1;  // memory streams of a lone row
  // Rows of the float micro-kernel at most, and those up to which it takes two panels at once: as the registers allow.
  static constexpr int kFloatRows = 6, kRowsOfTwoPanels = 3;

  struct Floats {
    float lane[8];
  };
  struct Ints {
    int32_t lane[8];
  };
  struct Shorts {
    int16_t lane[16];
  };
  struct Bytes {
    uint8_t lane[32];
  };

  template <class Vector, class Function>
  static Vector each(Function function) {
    Vector result;
    for (size_t i = 0; i < std::size(result.lane); ++i) {
      result.lane[i] = static_cast<std::remove_reference_t<decltype(result.lane[0])>>(function(i));
    }
    return result;
  }

  static Floats zero() { return {}; }
  static Floats broadcast(float x) {
    return each<Floats>([&](size_t) { return x; });
  }
  // Any alignment, as all loads here.
  static Floats load(const void* p) {
    Floats result;
    std::memcpy(&result, p, sizeof result);
    return result;
  }
  static void store(float* p, Floats x) { std::memcpy(p, &x, sizeof x); }
  static Floats add(Floats a, Floats b) {
    return each<Floats>([&](size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static Floats sub(Floats a, Floats b) {
    return each<Floats>([&](size_t i) { return a.lane[i] - b.lane[i]; });
  }
  static Floats mul(Floats a, Floats b) {
    return each<Floats>([&](size_t i) { return a.lane[i] * b.lane[i]; });
  }
  // a * b + c, rounded once.
  static Floats fma(Floats a, Floats b, Floats c) {
    return each<Floats>([&](size_t i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }

  static float scalar_fma(float a, float b, float c) { return std::fma(a, b, c); }

  static float half_to_float(uint16_t half) { return kernels::half_to_float(half); }
  static Floats load_half(const void* p) {
    uint16_t halves[8];
    std::memcpy(halves, p, sizeof halves);
    return each<Floats>([&](size_t i) { return half_to_float(halves[i]); });
  }
  static Floats load_bfloat(const void* p) {
    uint16_t halves[8];
    std::memcpy(halves, p, sizeof halves);
    return each<Floats>([&](size_t i) { return std::bit_cast<float>(uint32_t(halves[i]) << 16); });
  }

  // Eight floats to halves, rounded to nearest even.
  static void store_half(void* p, Floats x) {
    uint16_t halves[8];
    for (size_t i = 0; i < 8; ++i) halves[i] = float_to_half(x.lane[i]);
    std::memcpy(p, halves, sizeof halves);
  }

  static Ints int_broadcast(int32_t x) {
    return each<Ints>([&](size_t) { return x; });
  }
  // Eight unsigned bytes, widened.
  static Ints load_bytes_as_ints(const void* p) {
    uint8_t bytes[8];
    std::memcpy(bytes, p, sizeof bytes);
    return each<Ints>([&](size_t i) { return bytes[i]; });
  }
  static Floats to_floats(Ints x) {
    return each<Floats>([&](size_t i) { return static_cast<float>(x.lane[i]); });
  }
  // Modulo 2^32.
  static Ints int_add(Ints a, Ints b) {
    return each<Ints>([&](size_t i) { return uint32_t(a.lane[i]) + uint32_t(b.lane[i]); });
  }
  static void int_store(int32_t* p, Ints x) { std::memcpy(p, &x, sizeof x); }
  static Ints int_sub(Ints a, Ints b) {
    return each<Ints>([&](size_t i) { return a.lane[i] - b.lane[i]; });
  }
  // a * b where both lie within 16 bits and a is not negative.
  static Ints int_mul_small(Ints a, Ints b) {
    return each<Ints>([&](size_t i) { return a.lane[i] * b.lane[i]; });
  }

  static Bytes load_bytes(const void* p) {
    Bytes result;
    std::memcpy(&result, p, sizeof result);
    return result;
  }
  static Bytes low_nibbles(Bytes x) {
    return each<Bytes>([&](size_t i) { return x.lane[i] & 15; });
  }
  static Bytes high_nibbles(Bytes x) {
    return each<Bytes>([&](size_t i) { return x.lane[i] >> 4; });
  }
  // Bits 2 * index and 2 * index + 1 of each byte.
  template <int index>
  static Bytes bit_pairs(Bytes x) {
    return each<Bytes>([&](size_t i) { return x.lane[i] >> (2 * index) & 3; });
  }
  // Byte `index` of each of the eight 32-bit lanes, widened.
  template <int index>
  static Ints byte_of_lanes(Bytes x) {
    return each<Ints>([&](size_t i) { return x.lane[4 * i + index]; });
  }

  // For each 16-bit lane: the dot of two unsigned bytes of x with two of the four signed bytes at p (the same four for
  // every 32-bit lane). Modulo 2^16.
  static Shorts dot_pairs(Bytes x, const int8_t* p) {
    return each<Shorts>([&](size_t i) {
      const size_t j = 2 * (i % 2);
      return x.lane[2 * i] * p[j] + x.lane[2 * i + 1] * p[j + 1];
    });
  }
  static Shorts short_add(Shorts a, Shorts b) {
    return each<Shorts>([&](size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static Ints sum_pairs(Shorts x) {
    return each<Ints>([&](size_t i) { return x.lane[2 * i] + x.lane[2 * i + 1]; });
  }
  // A dot of up to 32 nibbles with as many int8 of at most 127, in the making: four a lane at once. The 16 products of
  // a 16-bit lane stay within 15 * 127 * 16 = 30480, so it is widened at its end only.
  // With kDotsOfBytes it is one of whole bytes, any number of them, summed modulo 2^32 in Ints.
  static constexpr bool kDotsOfBytes = false;
  using Dots = Shorts;
  static Dots first_dot(Bytes x, const int8_t* p) { return dot_pairs(x, p); }
  static Dots add_dot(Dots sum, Bytes x, const int8_t* p) { return short_add(sum, dot_pairs(x, p)); }
  static Ints sum_dots(Dots sum) { return sum_pairs(sum); }

  static Ints sum_dots_times_16(Shorts x) {
    return each<Ints>([&](size_t i) { return 16 * (x.lane[2 * i] + x.lane[2 * i + 1]); });
  }
  // Adds the four bytes of each lane.
  static Ints add_bytes(Ints sum, Bytes x) {
    return each<Ints>([&](size_t i) {
      return uint32_t(sum.lane[i]) + x.lane[4 * i] + x.lane[4 * i + 1] + x.lane[4 * i + 2] + x.lane[4 * i + 3];
    });
  }

  // Dots of eight columns' spans of 64 nibbles in source order (32 bytes each, `stride` apart) with each row's span at
  // q (matmul_kernels.h: SpanRow; rows `row_stride` bytes apart): dots[r][u] is of unit u, one lane a column.
  template <int unit, int rows>
  static void dot_spans(const std::byte* columns, int64_t stride, const int8_t* q, int64_t row_stride,
                        Ints (&dots)[rows][64 / unit]) {
    for (int r = 0; r < rows; ++r) {
      const int8_t* row = q + r * row_stride;
      for (int u = 0; u < 64 / unit; ++u) {
        dots[r][u] = each<Ints>([&](size_t column) {
          const std::byte* from = columns + static_cast<int64_t>(column) * stride;
          int32_t dot = 0;
          for (int i = u * unit / 2; i < (u + 1) * unit / 2; ++i) {
            dot += static_cast<int>(from[i] & std::byte{15}) * row[i] + static_cast<int>(from[i] >> 4) * row[i + 32];
          }
          return dot;
        });
      }
    }
  }

  // The largest |x| of 8 * count floats as the bits of a float; a NaN is larger than all else.
  static float max_magnitude(const float* p, int count) {
    uint32_t largest = 0;
    for (int i = 0; i < 8 * count; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(p[i]) & 0x7fffffff);
    return std::bit_cast<float>(largest);
  }
  // q[i] = p[i] * scale, rounded to nearest even, |result| <= 127, of 8 * count floats; returns the sum of q.
  static int32_t quantise(const float* p, int count, float scale, int8_t* q) {
    int32_t sum = 0;
    for (int i = 0; i < 8 * count; ++i) {
      const float scaled = p[i] * scale;
      q[i] = std::fabs(scaled) <= 127.25f ? static_cast<int8_t>(std::nearbyint(scaled)) : int8_t(-127);
      sum += q[i];
    }
    return sum;
  }

  // Eight columns' `unit` nibbles of source order (unit / 2 bytes each, `stride` apart) as one packed unit (matmul.h).
  template <int unit>
  static void interleave_unit(const std::byte* columns, int64_t stride, std::byte* out) {
    for (int column = 0; column < 8; ++column) {
      const auto nibble = [&](int k) { return columns[column * stride + k / 2] >> (k % 2 * 4) & std::byte{15}; };
      for (int k = 0; k < unit / 2; ++k) out[k / 4 * 32 + column * 4 + k % 4] = nibble(k) | nibble(unit / 2 + k) << 4;
    }
  }

  // The same of elements of 2 bits, and of 8.
  template <int unit>
  static void interleave_pairs(const std::byte* columns, int64_t stride, std::byte* out) {
    for (int column = 0; column < 8; ++column) {
      const auto pair = [&](int k) { return columns[column * stride + k / 4] >> (k % 4 * 2) & std::byte{3}; };
      for (int k = 0; k < unit / 4; ++k) {
        out[k / 4 * 32 + column * 4 + k % 4] =
            pair(k) | pair(unit / 4 + k) << 2 | pair(unit / 2 + k) << 4 | pair(3 * unit / 4 + k) << 6;
      }
    }
  }
  template <int unit>
  static void interleave_bytes(const std::byte* columns, int64_t stride, std::byte* out) {
    for (int column = 0; column < 8; ++column) {
      for (int k = 0; k < unit; ++k) out[k / 4 * 32 + column * 4 + k % 4] = columns[column * stride + k];
    }
  }

  // Four rows of eight bytes, each exclusive-or flip, as four bytes a column.
  static void interleave_rows(const std::byte* rows, int64_t stride, std::byte flip, std::byte* out) {
    for (int column = 0; column < 8; ++column) {
      for (int i = 0; i < 4; ++i) out[column * 4 + i] = rows[i * stride + column] ^ flip;
    }
  }
  // q[i] = p[i] exclusive-or flip as int8, and zeros up to 32; returns the sum of q.
  static int32_t signed_bytes(const std::byte* p, int count, int flip, int8_t* q) {
    int32_t sum = 0;
    for (int i = 0; i < 32; ++i) {
      q[i] = i < count ? static_cast<int8_t>(static_cast<int>(p[i]) ^ flip) : int8_t(0);
      sum += q[i];
    }
    return sum;
  }

  static void prefetch(const void*) {}
  static void stream(float* p, Floats x) { store(p, x); }
  static void finish_streams() {}

  // Transposes 8 rows of 8 floats in place.
  static void transpose(Floats (&rows)[8]) {
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < i; ++j) std::swap(rows[i].lane[j], rows[j].lane[i]);
    }
  }
};

}  // namespace
}  // namespace ompipe::kernels
