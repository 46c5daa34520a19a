// Products with packed weights of 2, 4 or 8 bits for any vector type: at accuracy_level 4 by integer dots, at 0 by
// dequantised strips.
#pragma once

#include "matmul_floats_impl.h"
#include "matmul_kernels.h"

namespace ompipe::kernels {

// The scales at a place in the packed records, and its zero points.
template <class V>
typename V::Floats load_scales(const std::byte* record, bool half) {
  return half ? V::load_half(record) : V::load(record);
}
template <class V>
typename V::Floats load_zero_points(const std::byte* zero_points, const MatMulSpec& spec) {
  switch (spec.zero_points) {
    case ZeroPoints::packed:
      return V::to_floats(V::load_bytes_as_ints(zero_points));
    case ZeroPoints::f32:
      return V::load(zero_points);
    case ZeroPoints::f16:
      return V::load_half(zero_points);
    case ZeroPoints::none:
      break;
  }
  return V::broadcast(static_cast<float>(default_zero_point(spec)));
}

// A vector's elements, one a byte. Of 8 bits there are two parts too: a product of a whole byte with an int8 doesn't
// leave 16 bits for the sum of two, so halves of elements are multiplied and put together when they are widened.
template <int bits>
inline constexpr int kParts = bits == 2 ? 4 : 2;
template <class V, int bits>
void split(typename V::Bytes x, typename V::Bytes (&parts)[kParts<bits>]) {
  if constexpr (bits == 2) {
    parts[0] = V::template bit_pairs<0>(x), parts[1] = V::template bit_pairs<1>(x);
    parts[2] = V::template bit_pairs<2>(x), parts[3] = V::template bit_pairs<3>(x);
  } else {
    parts[0] = V::low_nibbles(x), parts[1] = V::high_nibbles(x);
  }
}

// ---- accuracy_level 4

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
void quantise_rows(const MatMulArgs& args, int64_t begin, int64_t end) {
  const MatMulSpec& spec = args.layout->spec;
  for (int64_t row = begin; row < end;) {
    const int rows = next_rows(end - row);
    std::byte* out = args.shared_scratch + row * quantised_row_bytes(spec);
    if (unit_of(spec) == 16) {
      quantise_row_tile<V, 16>(args, row, rows, out);
    } else {
      quantise_row_tile<V, 32>(args, row, rows, out);
    }
    row += rows;
  }
}

// acc[g][r][0..8) = row r of the row tile `a` * group g. The products of a 16-bit lane, 16 of them with the parts of 4
// or 8 bits, stay within 15 * 127 * 16 = 30480, so a whole unit is summed in 16 bits before it is widened. Groups lie
// `group_stride` bytes apart: memory streams.
template <class V, int bits, int unit, int rows, int groups>
void dot_rows(const MatMulSpec& spec, const GroupRecord& record, const std::byte* a, const std::byte* b,
              int64_t group_stride, float* acc, int64_t acc_stride) {
  typename V::Floats sums[groups][rows];
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < rows; ++r) sums[g][r] = V::zero();
  }
  constexpr int parts = kParts<bits>, sets = bits == 8 ? 2 : 1, part_k = bits == 8 ? 0 : unit * bits / 8;
  const int64_t blocks = blocks_of(spec);
  const int units = spec.block / unit;
  const bool half_scales = packed_scale_bytes(spec) == 2, fractions = has_fractions(spec.zero_points);
  for (int64_t block = 0; block < blocks; ++block, b += record.bytes) {
    for (int u = 0; u < units; ++u, a += rows * (unit + 8)) {
      const std::byte* quants = b + record.quants_at + u * unit * bits;
      typename V::Shorts dots[sets][groups][rows];
#pragma GCC unroll 8
      for (int v = 0; v < unit * bits / 32; ++v) {
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) {
          typename V::Bytes x[parts];
          split<V, bits>(V::load_bytes(quants + g * group_stride + v * 32), x);
#pragma GCC unroll 6
          for (int r = 0; r < rows; ++r) {
            const int8_t* q = reinterpret_cast<const int8_t*>(a) + r * unit + v * 4;
#pragma GCC unroll 4
            for (int part = 0; part < parts; ++part) {
              const int set = bits == 8 ? part : 0;
              const auto products = V::dot_pairs(x[part], q + part * part_k);
              const bool first = v == 0 && part == set;
              dots[set][g][r] = first ? products : V::short_add(dots[set][g][r], products);
            }
          }
        }
      }
      const float* scales = reinterpret_cast<const float*>(a + rows * unit);
      const int32_t* offsets = reinterpret_cast<const int32_t*>(a + rows * (unit + 4));
#pragma GCC unroll 4
      for (int g = 0; g < groups; ++g) {
        const std::byte* at = b + g * group_stride;
        const auto weight_scales = load_scales<V>(at, half_scales);
        const auto zero_points = fractions ? load_zero_points<V>(at + record.zero_points_at, spec) : V::zero();
#pragma GCC unroll 6
        for (int r = 0; r < rows; ++r) {
          auto dot = V::sum_pairs(dots[0][g][r]);
          if constexpr (bits == 8) dot = V::int_add(dot, V::sum_pairs_times_16(dots[1][g][r]));
          auto offset = V::int_broadcast(offsets[r]);
          typename V::Floats value;
          if (fractions) {
            value = V::fma(zero_points, V::to_floats(V::int_broadcast(-offsets[r])), V::to_floats(dot));
          } else {
            if (spec.zero_points == ZeroPoints::packed) {
              offset = V::int_mul_small(V::load_bytes_as_ints(at + record.zero_points_at), offset);
            }
            value = V::to_floats(V::int_sub(dot, offset));
          }
          sums[g][r] = V::fma(V::mul(value, V::broadcast(scales[r])), weight_scales, sums[g][r]);
        }
      }
    }
  }
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < rows; ++r) V::store(acc + g * acc_stride + r * kGroupColumns, sums[g][r]);
  }
}

// How many groups the micro-kernel takes at once: a lone row wants four memory streams that share its broadcasts.
inline int groups_at_once(int64_t rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }

template <class V, int bits, int unit>
void dot_groups(const MatMulArgs& args, const GroupRecord& record, const TileRange& tile, int64_t group, int groups,
                float* acc) {
  const MatMulSpec& spec = args.layout->spec;
  const int64_t rows = tile.row_end - tile.row_begin, group_stride = blocks_of(spec) * record.bytes;
  const std::byte* b = args.packed + group * group_stride;
  for (int64_t done = 0; done < rows;) {
    const int count = next_rows(rows - done);
    const std::byte* a = args.shared_scratch + (tile.row_begin + done) * quantised_row_bytes(spec);
    const auto run = [&]<int r>() {
      constexpr int most = r == 1 ? 4 : r == 2 ? 2 : 1;
      float* out = acc + done * kGroupColumns;
      if (groups == most)
        return dot_rows<V, bits, unit, r, most>(spec, record, a, b, group_stride, out, rows * kGroupColumns);
      for (int g = 0; g < groups; ++g) {
        dot_rows<V, bits, unit, r, 1>(spec, record, a, b + g * group_stride, 0, out + g * rows * kGroupColumns, 0);
      }
    };
    switch (count) {
      case 1:
        run.template operator()<1>();
        break;
      case 2:
        run.template operator()<2>();
        break;
      case 3:
        run.template operator()<3>();
        break;
      case 4:
        run.template operator()<4>();
        break;
      case 5:
        run.template operator()<5>();
        break;
      default:
        run.template operator()<6>();
        break;
    }
    done += count;
  }
}

template <class V>
auto dot_groups_of(const MatMulSpec& spec) {
  const bool small = unit_of(spec) == 16;
  if (spec.bits == 2) return small ? dot_groups<V, 2, 16> : dot_groups<V, 2, 32>;
  if (spec.bits == 4) return small ? dot_groups<V, 4, 16> : dot_groups<V, 4, 32>;
  return small ? dot_groups<V, 8, 16> : dot_groups<V, 8, 32>;
}

template <class V>
void nbits_int_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const MatMulSpec& spec = args.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t rows = tile.row_end - tile.row_begin;
  float* acc = reinterpret_cast<float*>(scratch);
  for (int64_t group = tile.panel_begin; group < tile.panel_end;) {
    const int groups = tile.panel_end - group < groups_at_once(rows) ? 1 : groups_at_once(rows);
    dot_groups_of<V>(spec)(args, record, tile, group, groups, acc);
    for (int g = 0; g < groups; ++g, ++group) {
      const int64_t column = group * kGroupColumns, left = spec.n - column;
      write_out<V>(args, acc + g * rows * kGroupColumns, kGroupColumns, tile.row_begin, tile.row_end, column,
                   left < kGroupColumns ? left : kGroupColumns);
    }
  }
}

// ---- accuracy_level 0

// One unit of k of one group as floats: (q - zero point) * scale at strip[k][0..8), rows of a strip 16 floats apart.
template <class V, int bits, int unit>
void dequantise_unit(const std::byte* quants, typename V::Floats scales, typename V::Floats zero_points, float* strip) {
  const auto put = [&](int k, typename V::Ints q) {
    V::store(strip + k * kPanelColumns, V::mul(V::sub(V::to_floats(q), zero_points), scales));
  };
  const auto put_four = [&](int k, typename V::Bytes x) {
    put(k, V::template byte_of_lanes<0>(x));
    put(k + 1, V::template byte_of_lanes<1>(x));
    put(k + 2, V::template byte_of_lanes<2>(x));
    put(k + 3, V::template byte_of_lanes<3>(x));
  };
#pragma GCC unroll 8
  for (int v = 0; v < unit * bits / 32; ++v) {
    const auto all = V::load_bytes(quants + v * 32);
    if constexpr (bits == 8) {
      put_four(4 * v, all);
    } else {
      typename V::Bytes x[kParts<bits>];
      split<V, bits>(all, x);
#pragma GCC unroll 4
      for (int part = 0; part < kParts<bits>; ++part) put_four(part * (unit * bits / 8) + 4 * v, x[part]);
    }
  }
}

template <class V>
auto dequantise_unit_of(const MatMulSpec& spec) {
  const bool small = unit_of(spec) == 16;
  if (spec.bits == 2) return small ? dequantise_unit<V, 2, 16> : dequantise_unit<V, 2, 32>;
  if (spec.bits == 4) return small ? dequantise_unit<V, 4, 16> : dequantise_unit<V, 4, 32>;
  return small ? dequantise_unit<V, 8, 16> : dequantise_unit<V, 8, 32>;
}

// Elements [k_begin, k_begin + kStripK) of one group, as far as its blocks go, into `strip`. k_begin is a multiple of
// kStripK.
template <class V>
void dequantise_strip(const MatMulSpec& spec, const GroupRecord& record, const std::byte* group, int64_t k_begin,
                      float* strip) {
  const int64_t k_left = blocks_of(spec) * spec.block - k_begin;
  const int unit = unit_of(spec);
  const auto dequantise = dequantise_unit_of<V>(spec);
  for (int64_t k = 0; k < kStripK && k < k_left; k += unit) {
    const std::byte* at = group + (k_begin + k) / spec.block * record.bytes;
    const std::byte* quants = at + record.quants_at + (k_begin + k) % spec.block * spec.bits;
    dequantise(quants, load_scales<V>(at, packed_scale_bytes(spec) == 2),
               load_zero_points<V>(at + record.zero_points_at, spec), strip + k * kPanelColumns);
  }
}

// Dequantises strips of a few panels into scratch, where they stay in L1, and runs the float micro-kernel on them.
template <class V>
void nbits_float_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const MatMulSpec& spec = args.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t group_bytes = blocks_of(spec) * record.bytes, groups = divide_up(spec.n, kGroupColumns);
  const int64_t rows = tile.row_end - tile.row_begin;
  const FloatRows a = float_rows<V>(args, tile.row_begin);
  constexpr int64_t kStripFloats = kStripK * kPanelColumns;
  float* strips = reinterpret_cast<float*>(scratch);
  float* acc = strips + 4 * kStripFloats;
  for (int64_t panel = tile.panel_begin; panel < tile.panel_end;) {
    const int panels = tile.panel_end - panel < panels_at_once(rows) ? 1 : panels_at_once(rows);
    __builtin_memset(acc, 0, panels * rows * kPanelColumns * sizeof(float));
    for (int64_t k = 0; k < spec.k; k += kStripK) {
      for (int64_t g = 0; g < 2 * panels; ++g) {
        float* strip = strips + g / 2 * kStripFloats + g % 2 * kGroupColumns;
        // A last panel of one group: its other half repeats that group and is never written out.
        const int64_t group = 2 * panel + g < groups ? 2 * panel + g : groups - 1;
        dequantise_strip<V>(spec, record, args.packed + group * group_bytes, k, strip);
      }
      const int64_t k_count = spec.k - k < kStripK ? spec.k - k : kStripK;
      multiply_panels<V>(a.data + k, a.stride, rows, panels, strips, kStripFloats, k_count, acc, nullptr);
    }
    write_panels<V>(args, acc, tile.row_begin, tile.row_end, panel, panels);
    panel += panels;
  }
}

}  // namespace ompipe::kernels
