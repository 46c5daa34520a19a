// The vector operations that kernel templates are written in, for aarch64: pairs of 128-bit registers. vec_scalar.h
// says what each means.
//
// Included by *_neon*.cpp only. The types have internal linkage, so that templates instantiated with them do too.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace ompipe::kernels {
namespace {

struct VecNeon {
  static constexpr int kLanes = 8;
  static constexpr int kStreams = 4;                          // memory streams of a lone row
  static constexpr int kFloatRows = 6, kRowsOfTwoPanels = 3;  // 6 x 16 floats are 24 accumulators of 32 registers

  struct Floats {
    float32x4_t low, high;
  };
  struct Ints {
    int32x4_t low, high;
  };
  struct Shorts {
    int16x8_t low, high;
  };
  struct Bytes {
    uint8x16_t low, high;
  };

  static Floats zero() { return broadcast(0); }
  static Floats broadcast(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static Floats load(const void* p) {
    const auto* floats = static_cast<const float*>(p);
    return {vld1q_f32(floats), vld1q_f32(floats + 4)};
  }
  static void store(float* p, Floats x) {
    vst1q_f32(p, x.low);
    vst1q_f32(p + 4, x.high);
  }
  static Floats add(Floats a, Floats b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
  static Floats sub(Floats a, Floats b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
  static Floats mul(Floats a, Floats b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
  static Floats fma(Floats a, Floats b, Floats c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
  }
  static float scalar_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

  static Floats widen_halves(uint16x8_t halves) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(halves))),
            vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(halves)))};
  }
  static float half_to_float(uint16_t half) { return vgetq_lane_f32(widen_halves(vdupq_n_u16(half)).low, 0); }
  static Floats load_half(const void* p) { return widen_halves(vld1q_u16(static_cast<const uint16_t*>(p))); }
  static void store_half(void* p, Floats x) {
    vst1q_u16(static_cast<uint16_t*>(p),
              vcombine_u16(vreinterpret_u16_f16(vcvt_f16_f32(x.low)), vreinterpret_u16_f16(vcvt_f16_f32(x.high))));
  }
  static Floats load_bfloat(const void* p) {
    const uint16x8_t halves = vld1q_u16(static_cast<const uint16_t*>(p));
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(halves), 16)),
            vreinterpretq_f32_u32(vshll_high_n_u16(halves, 16))};
  }

  static Ints int_broadcast(int32_t x) { return {vdupq_n_s32(x), vdupq_n_s32(x)}; }
  static Ints load_bytes_as_ints(const void* p) {
    const uint16x8_t shorts = vmovl_u8(vld1_u8(static_cast<const uint8_t*>(p)));
    return {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(shorts))), vreinterpretq_s32_u32(vmovl_high_u16(shorts))};
  }
  static Floats to_floats(Ints x) { return {vcvtq_f32_s32(x.low), vcvtq_f32_s32(x.high)}; }
  static Ints int_add(Ints a, Ints b) { return {vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)}; }
  static void int_store(int32_t* p, Ints x) {
    vst1q_s32(p, x.low);
    vst1q_s32(p + 4, x.high);
  }
  static Ints int_sub(Ints a, Ints b) { return {vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)}; }
  static Ints int_mul_small(Ints a, Ints b) { return {vmulq_s32(a.low, b.low), vmulq_s32(a.high, b.high)}; }

  static Bytes load_bytes(const void* p) {
    const auto* bytes = static_cast<const uint8_t*>(p);
    return {vld1q_u8(bytes), vld1q_u8(bytes + 16)};
  }
  static Bytes low_nibbles(Bytes x) { return {vandq_u8(x.low, vdupq_n_u8(15)), vandq_u8(x.high, vdupq_n_u8(15))}; }
  static Bytes high_nibbles(Bytes x) { return {vshrq_n_u8(x.low, 4), vshrq_n_u8(x.high, 4)}; }
  template <int index>
  static Bytes bit_pairs(Bytes x) {
    return {bit_pair<index>(x.low), bit_pair<index>(x.high)};
  }
  template <int index>
  static Ints byte_of_lanes(Bytes x) {
    return {byte_of_four<index>(vreinterpretq_u32_u8(x.low)), byte_of_four<index>(vreinterpretq_u32_u8(x.high))};
  }

  // The bytes are nibbles, so they are the same with a sign.
  static Shorts dot_pairs(Bytes x, const int8_t* p) {
    const int8x16_t four = four_bytes(p);
    return {dot_pairs(vreinterpretq_s8_u8(x.low), four), dot_pairs(vreinterpretq_s8_u8(x.high), four)};
  }
  static Shorts short_add(Shorts a, Shorts b) { return {vaddq_s16(a.low, b.low), vaddq_s16(a.high, b.high)}; }
  static Ints sum_pairs(Shorts x) { return {vpaddlq_s16(x.low), vpaddlq_s16(x.high)}; }
  static constexpr bool kDotsOfBytes = false;
  using Dots = Shorts;
  static Dots first_dot(Bytes x, const int8_t* p) { return dot_pairs(x, p); }
  static Dots add_dot(Dots sum, Bytes x, const int8_t* p) { return short_add(sum, dot_pairs(x, p)); }
  static Ints sum_dots(Dots sum) { return sum_pairs(sum); }
  static Ints sum_dots_times_16(Dots sum) { return times_16(sum_pairs(sum)); }
  static Ints add_bytes(Ints sum, Bytes x) { return {add_bytes(sum.low, x.low), add_bytes(sum.high, x.high)}; }

  template <int unit, int rows>
  static void dot_spans(const std::byte* columns, int64_t stride, const int8_t* q, int64_t row_stride,
                        Ints (&dots)[rows][64 / unit]) {
    int32_t lanes[rows][64 / unit][8];
    for (int column = 0; column < 8; ++column) {
      for (int half = 0; half < 2; ++half) {
        const uint8x16_t both = vld1q_u8(reinterpret_cast<const uint8_t*>(columns + column * stride) + 16 * half);
        const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
        const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
        for (int r = 0; r < rows; ++r) {
          const int8_t* row = q + r * row_stride + 16 * half;
          const int8x16_t x = vld1q_s8(row), y = vld1q_s8(row + 32);
          const int16x8_t first =
              vmlal_s8(vmull_s8(vget_low_s8(low), vget_low_s8(x)), vget_low_s8(high), vget_low_s8(y));
          const int16x8_t second = vmlal_high_s8(vmull_high_s8(low, x), high, y);
          if constexpr (unit == 32) {
            lanes[r][half][column] = vaddlvq_s16(vaddq_s16(first, second));
          } else {
            lanes[r][2 * half][column] = vaddlvq_s16(first);
            lanes[r][2 * half + 1][column] = vaddlvq_s16(second);
          }
        }
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int u = 0; u < 64 / unit; ++u) dots[r][u] = {vld1q_s32(lanes[r][u]), vld1q_s32(lanes[r][u] + 4)};
    }
  }

  static float max_magnitude(const float* p, int count) {
    uint32x4_t largest = vdupq_n_u32(0);
    for (int i = 0; i < 2 * count; ++i) {
      const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(p + 4 * i));
      largest = vmaxq_u32(largest, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
    }
    return vgetq_lane_f32(vreinterpretq_f32_u32(vdupq_n_u32(vmaxvq_u32(largest))), 0);
  }
  static int32_t quantise(const float* p, int count, float scale, int8_t* q) {
    int32x4_t sums = vdupq_n_s32(0);
    for (int i = 0; i < count; ++i) {
      const int32x4_t low = round_scaled(p + 8 * i, scale), high = round_scaled(p + 8 * i + 4, scale);
      sums = vaddq_s32(sums, vaddq_s32(low, high));
      vst1_s8(q + 8 * i, vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high))));
    }
    return vaddvq_s32(sums);
  }

  template <int unit>
  static void interleave_unit(const std::byte* columns, int64_t stride, std::byte* unit_out) {
    uint32x4_t rows[2][4];  // of each column: bytes k | k + unit / 2 << 4
    for (int i = 0; i < 8; ++i) {
      const auto* column = reinterpret_cast<const uint8_t*>(columns + i * stride);
      if constexpr (unit == 16) {
        const uint8x8_t both = vld1_u8(column), even = vand_u8(both, vdup_n_u8(15)), odd = vshr_n_u8(both, 4);
        const uint8x8_t row = vorr_u8(vzip1_u8(even, odd), vshl_n_u8(vzip2_u8(even, odd), 4));
        rows[i / 4][i % 4] = vreinterpretq_u32_u8(vcombine_u8(row, row));
      } else {
        const uint8x16_t both = vld1q_u8(column), even = vandq_u8(both, vdupq_n_u8(15)), odd = vshrq_n_u8(both, 4);
        rows[i / 4][i % 4] = vreinterpretq_u32_u8(vorrq_u8(vzip1q_u8(even, odd), vshlq_n_u8(vzip2q_u8(even, odd), 4)));
      }
    }
    store_columns<unit / 8>(rows, unit_out);
  }
  template <int unit>
  static void interleave_pairs(const std::byte* columns, int64_t stride, std::byte* out) {
    constexpr int span = unit / 4;  // elements between the parts of a byte
    const uint8x8_t place = {0, 0, 0, 0, 1, 1, 1, 1};
    const int8x8_t shift = {0, -2, -4, -6, 0, -2, -4, -6};
    for (int column = 0; column < 8; ++column) {
      uint8_t bytes[8] = {};
      __builtin_memcpy(bytes, columns + column * stride, span);
      const uint8x8_t source = vld1_u8(bytes);
      uint8x8_t packed = vdup_n_u8(0);
      for (int part = 3; part >= 0; --part) {
        const uint8x8_t element = vshl_u8(vtbl1_u8(source, vadd_u8(place, vdup_n_u8(uint8_t(part * span / 4)))), shift);
        packed = vorr_u8(vshl_n_u8(packed, 2), vand_u8(element, vdup_n_u8(3)));
      }
      vst1_u8(bytes, packed);
      for (int v = 0; v < span / 4; ++v) __builtin_memcpy(out + 32 * v + 4 * column, bytes + 4 * v, 4);
    }
  }
  template <int unit>
  static void interleave_bytes(const std::byte* columns, int64_t stride, std::byte* out) {
    for (int k = 0; k < unit; k += 16, out += 128) {
      uint32x4_t rows[2][4];
      for (int i = 0; i < 8; ++i) {
        rows[i / 4][i % 4] = vreinterpretq_u32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(columns + i * stride + k)));
      }
      store_columns<4>(rows, out);
    }
  }

  static void interleave_rows(const std::byte* rows, int64_t stride, std::byte flip, std::byte* out) {
    const auto row = [&](int i) { return vld1_u8(reinterpret_cast<const uint8_t*>(rows + i * stride)); };
    const uint8x16_t flips = vdupq_n_u8(uint8_t(flip));
    const uint8x8_t first = row(0), second = row(1), third = row(2), fourth = row(3);
    const uint16x8_t firsts = vreinterpretq_u16_u8(vcombine_u8(vzip1_u8(first, second), vzip2_u8(first, second)));
    const uint16x8_t lasts = vreinterpretq_u16_u8(vcombine_u8(vzip1_u8(third, fourth), vzip2_u8(third, fourth)));
    auto* to = reinterpret_cast<uint8_t*>(out);
    vst1q_u8(to, veorq_u8(vreinterpretq_u8_u16(vzip1q_u16(firsts, lasts)), flips));
    vst1q_u8(to + 16, veorq_u8(vreinterpretq_u8_u16(vzip2q_u16(firsts, lasts)), flips));
  }
  static int32_t signed_bytes(const std::byte* p, int count, int flip, int8_t* q) {
    std::byte padded[32];
    if (count < 32) {
      __builtin_memset(padded, flip, sizeof padded);
      __builtin_memcpy(padded, p, static_cast<size_t>(count));
      p = padded;
    }
    const auto* from = reinterpret_cast<const uint8_t*>(p);
    const uint8x16_t flips = vdupq_n_u8(uint8_t(flip));
    const int8x16_t low = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(from), flips));
    const int8x16_t high = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(from + 16), flips));
    vst1q_s8(q, low);
    vst1q_s8(q + 16, high);
    return vaddlvq_s8(low) + vaddlvq_s8(high);
  }

  static void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }
  static void stream(float* p, Floats x) { store(p, x); }
  static void finish_streams() {}

  static void transpose(Floats (&rows)[8]) {
    uint32x4_t blocks[2][2][4];  // [rows below 4 or not][columns below 4 or not]
    for (int i = 0; i < 8; ++i) {
      blocks[i / 4][0][i % 4] = vreinterpretq_u32_f32(rows[i].low);
      blocks[i / 4][1][i % 4] = vreinterpretq_u32_f32(rows[i].high);
    }
    for (auto& half : blocks) {
      for (auto& block : half) transpose_four(block);
    }
    for (int i = 0; i < 8; ++i) {
      rows[i].low = vreinterpretq_f32_u32(blocks[0][i / 4][i % 4]);
      rows[i].high = vreinterpretq_f32_u32(blocks[1][i / 4][i % 4]);
    }
  }

 protected:
  static int8x16_t four_bytes(const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }
  static Ints times_16(Ints x) { return {vshlq_n_s32(x.low, 4), vshlq_n_s32(x.high, 4)}; }

 private:
  static int16x8_t dot_pairs(int8x16_t x, int8x16_t four) {
    return vpaddq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(four)), vmull_high_s8(x, four));
  }
  static int32x4_t add_bytes(int32x4_t sum, uint8x16_t x) {
    return vreinterpretq_s32_u32(vpadalq_u16(vreinterpretq_u32_s32(sum), vpaddlq_u8(x)));
  }
  template <int index>
  static uint8x16_t bit_pair(uint8x16_t x) {
    if constexpr (index > 0) x = vshrq_n_u8(x, 2 * index);
    return vandq_u8(x, vdupq_n_u8(3));
  }
  template <int index>
  static int32x4_t byte_of_four(uint32x4_t x) {
    if constexpr (index > 0) x = vshrq_n_u32(x, 8 * index);
    return vreinterpretq_s32_u32(vandq_u32(x, vdupq_n_u32(255)));
  }
  static int32x4_t round_scaled(const float* p, float scale) {
    const float32x4_t scaled = vmulq_n_f32(vld1q_f32(p), scale);
    const uint32x4_t fits = vcleq_f32(vabsq_f32(scaled), vdupq_n_f32(127.25f));
    return vbslq_s32(fits, vcvtnq_s32_f32(scaled), vdupq_n_s32(-127));
  }
  // 4 * vectors bytes of each of eight columns as vectors of 4 bytes a column.
  template <int vectors>
  static void store_columns(uint32x4_t (&rows)[2][4], std::byte* out) {
    for (int half = 0; half < 2; ++half) {
      transpose_four(rows[half]);
      for (int v = 0; v < vectors; ++v) vst1q_u32(reinterpret_cast<uint32_t*>(out) + 8 * v + 4 * half, rows[half][v]);
    }
  }
  static void transpose_four(uint32x4_t (&rows)[4]) {
    const uint64x2_t even01 = vreinterpretq_u64_u32(vtrn1q_u32(rows[0], rows[1]));
    const uint64x2_t odd01 = vreinterpretq_u64_u32(vtrn2q_u32(rows[0], rows[1]));
    const uint64x2_t even23 = vreinterpretq_u64_u32(vtrn1q_u32(rows[2], rows[3]));
    const uint64x2_t odd23 = vreinterpretq_u64_u32(vtrn2q_u32(rows[2], rows[3]));
    rows[0] = vreinterpretq_u32_u64(vtrn1q_u64(even01, even23));
    rows[1] = vreinterpretq_u32_u64(vtrn1q_u64(odd01, odd23));
    rows[2] = vreinterpretq_u32_u64(vtrn2q_u64(even01, even23));
    rows[3] = vreinterpretq_u32_u64(vtrn2q_u64(odd01, odd23));
  }
};

}  // namespace
}  // namespace ompipe::kernels
