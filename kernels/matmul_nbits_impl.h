// Products with packed weights of 2, 4 or 8 bits at accuracy_level 4, for any vector type: by integer dots.
#pragma once

#include "matmul_floats_impl.h"
#include "nbits_records.h"

namespace ompipe::kernels {

// One block of min(block, 32) elements of one row: int8 in q, the scale, and the sum of q times `factor` (the default
// zero point, if the weights have none of their own, else 1). A block below 1e-30 counts as zero, so that 127 / max
// stays finite; NaN and infinity give a scale that isn't finite, and so do the outputs.
template <class V, int unit>
void quantise_unit(const float* a, int factor, int8_t* q, float* scale, int32_t* offset) {
  const float largest = V::max_magnitude(a, unit / 8);
  const float inverse = largest >= 1e-30f ? 127.0f / largest : 0.0f;
  *offset = factor * V::quantise(a, unit / 8, inverse, q);
  *scale = largest < 1e-30f ? 0.0f : largest / 127.0f;
}

// The unit of A at `row` and `k` as floats: where it lies, or in `copy`, with zeros past K.
template <class V, int unit>
const float* unit_of_row(const MatMulArgs& args, int64_t row, int64_t k, float (&copy)[unit]) {
  const int64_t left = args.layout->spec.k - k, count = left < unit ? left : unit, at = row * args.lda + k;
  const bool half = args.type == ElementType::f16;
  if (!half && count == unit) return static_cast<const float*>(args.a) + at;
  int64_t i = 0;
  for (; half && i + 8 <= count; i += 8) {
    V::store(copy + i, V::load_half(static_cast<const uint16_t*>(args.a) + at + i));
  }
  for (; i < count; ++i) {
    copy[i] = half ? V::half_to_float(static_cast<const uint16_t*>(args.a)[at + i])
                   : static_cast<const float*>(args.a)[at + i];
  }
  for (; i < unit; ++i) copy[i] = 0;
  return copy;
}

// Quantises `rows` rows into one row tile: for each unit of k, rows x int8[unit], rows x float scale, rows x int32
// offset.
template <class V, int unit>
void quantise_row_tile(const MatMulArgs& args, int64_t row, int rows, std::byte* out) {
  const MatMulSpec& spec = args.layout->spec;
  const int64_t units = blocks_of(spec) * (spec.block / unit);
  const int factor = spec.zero_points == ZeroPoints::none ? default_zero_point(spec) : 1;
  for (int64_t u = 0; u < units; ++u, out += rows * (unit + 8)) {
    for (int r = 0; r < rows; ++r) {
      float copy[unit];
      quantise_unit<V, unit>(unit_of_row<V>(args, row + r, u * unit, copy), factor,
                             reinterpret_cast<int8_t*>(out + r * unit), reinterpret_cast<float*>(out + rows * unit) + r,
                             reinterpret_cast<int32_t*>(out + rows * (unit + 4)) + r);
    }
  }
}

template <class V>
void quantise_rows(const MatMulArgs& args, const RowPart& part) {
  const MatMulSpec& spec = args.layout->spec;
  for_row_tiles(part, kRowsPerTile, [&](int64_t row, int rows) {
    std::byte* out = args.shared_scratch + row * quantised_row_bytes(spec);
    if (unit_of(spec) == 16) return quantise_row_tile<V, 16>(args, row, rows, out);
    quantise_row_tile<V, 32>(args, row, rows, out);
  });
}

// acc[g][r][0..lanes) = row r of the row tile `a` * what register g holds of B: one or two groups. Registers' groups
// lie `stride` bytes apart: memory streams.
//
// The products of a 16-bit lane, 16 of them with the parts of 4 or 8 bits, stay within 15 * 127 * 16 = 30480, so a
// whole unit is summed in 16 bits before it is widened. A whole byte times an int8 would leave no room for a second
// one: without kDotsOfBytes the halves are multiplied and put together when they are widened.
template <class V, int bits, int unit, int rows, int registers>
void dot_rows(const MatMulSpec& spec, const GroupRecord& record, const std::byte* a, const std::byte* b, int64_t stride,
              int64_t other, float* acc, int64_t acc_stride) {
  typename V::Floats sums[registers][rows];
  for (int g = 0; g < registers; ++g) {
    for (int r = 0; r < rows; ++r) sums[g][r] = V::zero();
  }
  constexpr bool halves = bits == 8 && !V::kDotsOfBytes;
  constexpr int width = halves ? 4 : bits, sets = halves ? 2 : 1, part_k = bits == 8 ? 0 : unit * bits / 8;
  const int64_t blocks = blocks_of(spec);
  const int units = spec.block / unit;
  const bool fractions = has_fractions(spec.zero_points);
  for (int64_t block = 0; block < blocks; ++block, b += record.bytes) {
    for (int u = 0; u < units; ++u, a += rows * (unit + 8)) {
      const std::byte* quants = b + record.quants_at + u * unit * bits;
      typename V::Dots dots[sets][registers][rows];
#pragma GCC unroll 8
      for (int v = 0; v < unit * bits / 32; ++v) {
#pragma GCC unroll 4
        for (int g = 0; g < registers; ++g) {
          const auto all = load_quants<V>(quants + g * stride + v * 32, other);
          typename V::Bytes x[kParts<width>];
          [&]<int... part>(std::integer_sequence<int, part...>) {
            ((x[part] = part_of<V, width, part>(all)), ...);
          }(std::make_integer_sequence<int, kParts<width>>());
#pragma GCC unroll 6
          for (int r = 0; r < rows; ++r) {
            const int8_t* q = reinterpret_cast<const int8_t*>(a) + r * unit + v * 4;
#pragma GCC unroll 4
            for (int part = 0; part < kParts<width>; ++part) {
              auto& sum = dots[halves ? part : 0][g][r];
              const bool first = v == 0 && (bits == 8 || part == 0);
              sum = first ? V::first_dot(x[part], q) : V::add_dot(sum, x[part], q + part * part_k);
            }
          }
        }
      }
      const float* scales = reinterpret_cast<const float*>(a + rows * unit);
      const int32_t* offsets = reinterpret_cast<const int32_t*>(a + rows * (unit + 4));
#pragma GCC unroll 4
      for (int g = 0; g < registers; ++g) {
        const std::byte* at = b + g * stride;
        const auto weight_scales = load_scales<V>(at, other, spec);
        const auto dot_of = [&](int r) __attribute__((always_inline)) {
          const auto dot = V::sum_dots(dots[0][g][r]);
          if constexpr (halves) return V::int_add(dot, V::sum_dots_times_16(dots[1][g][r]));
          return dot;
        };
        const auto add = [&](int r, typename V::Floats dot) __attribute__((always_inline)) {
          sums[g][r] = V::fma(V::mul(dot, V::broadcast(scales[r])), weight_scales, sums[g][r]);
        };
        if (fractions) [[unlikely]] {
          const auto zero_points = load_zero_points<V>(at + record.zero_points_at, other, spec);
#pragma GCC unroll 6
          for (int r = 0; r < rows; ++r) {
            const auto negated = V::to_floats(V::int_broadcast(-offsets[r]));
            add(r, V::fma(zero_points, negated, V::to_floats(dot_of(r))));
          }
          continue;
        }
#pragma GCC unroll 6
        for (int r = 0; r < rows; ++r) {
          auto offset = V::int_broadcast(offsets[r]);
          if (spec.zero_points == ZeroPoints::packed) {
            offset = V::int_mul_small(load_column_bytes<V>(at + record.zero_points_at, other), offset);
          }
          add(r, V::to_floats(V::int_sub(dot_of(r), offset)));
        }
      }
    }
  }
  for (int g = 0; g < registers; ++g) {
    for (int r = 0; r < rows; ++r) V::store(acc + g * acc_stride + r * V::kLanes, sums[g][r]);
  }
}

// All rows of a tile with `count` (1 or registers_at_once) registers' groups, `distance` groups apart from `group` on.
template <class V, int bits, int unit>
void dot_groups(const MatMulArgs& args, const GroupRecord& record, const TileRange& tile, int64_t group, int count,
                int64_t distance, float* acc) {
  const MatMulSpec& spec = args.layout->spec;
  const int64_t rows = tile.row_end - tile.row_begin, group_bytes = blocks_of(spec) * record.bytes;
  const int64_t stride = group_bytes * distance, acc_stride = rows * V::kLanes;
  // A last group alone stands in both halves of a register.
  const int64_t other = tile.panel_end - group < kGroupsPerRegister<V> ? 0 : group_bytes;
  const std::byte* b = args.packed + group * group_bytes;
  for_row_tiles(all_rows(tile), kRowsPerTile, [&](int64_t row, int row_count) {
    const std::byte* a = args.shared_scratch + row * quantised_row_bytes(spec);
    with_rows<kRowsPerTile>(row_count, [&]<int r>() {
      constexpr int most = registers_at_once<V>(r);
      float* out = acc + (row - tile.row_begin) * V::kLanes;
      if (count == most) return dot_rows<V, bits, unit, r, most>(spec, record, a, b, stride, other, out, acc_stride);
      for (int g = 0; g < count; ++g) {
        dot_rows<V, bits, unit, r, 1>(spec, record, a, b + g * stride, 0, other, out + g * acc_stride, 0);
      }
    });
  });
}

template <class V>
void nbits_int_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const MatMulSpec& spec = args.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t rows = tile.row_end - tile.row_begin;
  float* acc = reinterpret_cast<float*>(scratch);
  for_streams<V>(tile, registers_at_once<V>(rows), [&](int64_t group, int count, int64_t distance) {
    with_format(spec, [&]<int bits, int unit>() {
      dot_groups<V, bits, unit>(args, record, tile, group, count, distance, acc);
    });
    write_streams<V>(args, tile, group, count, distance, acc);
  });
}

}  // namespace ompipe::kernels
