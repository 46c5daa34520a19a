// Products with packed 4-bit weights for any vector type: at accuracy_level 4 by integer dots, at 0 by dequantised
// strips.
#pragma once

#include "matmul_floats_impl.h"
#include "matmul_kernels.h"

namespace ompipe::kernels {

// A place in the packed records: its scales, and its zero points if there are any.
template <class V>
typename V::Floats load_scales(const std::byte* record, const MatMulSpec& spec) {
  if (spec.scale_type == ScaleType::f16) return V::load_half(record);
  return V::load(record);
}

// ---- accuracy_level 4

// One block of min(block, 32) elements of one row: int8 in q, the scale, and the sum of q as the kernels want it (times
// 8, the zero point, if the weights have none of their own). A block below 1e-30 counts as zero, so that 127 / max
// stays finite; NaN and infinity give a scale that isn't finite, and so do the outputs.
template <class V, int unit>
void quantise_unit(const float* a, bool has_zero_points, int8_t* q, float* scale, int32_t* offset) {
  const float largest = V::max_magnitude(a, unit / 8);
  const float inverse = largest >= 1e-30f ? 127.0f / largest : 0.0f;
  const int32_t sum = V::quantise(a, unit / 8, inverse, q);
  *scale = largest < 1e-30f ? 0.0f : largest / 127.0f;
  *offset = has_zero_points ? sum : 8 * sum;
}

// Quantises `rows` rows into one row tile: for each unit of k, rows x int8[unit], rows x float scale, rows x int32
// offset.
template <class V, int unit>
void quantise_row_tile(const MatMulSpec& spec, const float* a, int64_t lda, int rows, std::byte* out) {
  const int64_t units = blocks_of(spec) * (spec.block / unit);
  for (int64_t u = 0; u < units; ++u, out += rows * (unit + 8)) {
    const int64_t k = u * unit, left = spec.k - k;
    for (int r = 0; r < rows; ++r) {
      float padded[unit] = {};
      const float* source = a + r * lda + k;
      if (left < unit) {
        for (int64_t i = 0; i < left; ++i) padded[i] = source[i];
        source = padded;
      }
      quantise_unit<V, unit>(source, spec.zero_points != ZeroPoints::none, reinterpret_cast<int8_t*>(out + r * unit),
                             reinterpret_cast<float*>(out + rows * unit) + r,
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
    const float* a = args.a + row * args.lda;
    if (unit_of(spec) == 16) {
      quantise_row_tile<V, 16>(spec, a, args.lda, rows, out);
    } else {
      quantise_row_tile<V, 32>(spec, a, args.lda, rows, out);
    }
    row += rows;
  }
}

// acc[g][r][0..8) = row r of the row tile `a` * group g. The 16 products of a 16-bit lane stay within 15 * 127 * 16 =
// 30480, so a whole unit is summed in 16 bits before it is widened. Groups lie `group_stride` bytes apart: memory
// streams.
template <class V, int unit, int rows, int groups>
void dot_rows(const MatMulSpec& spec, const GroupRecord& record, const std::byte* a, const std::byte* b,
              int64_t group_stride, float* acc, int64_t acc_stride) {
  typename V::Floats sums[groups][rows];
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < rows; ++r) sums[g][r] = V::zero();
  }
  const int64_t blocks = blocks_of(spec);
  const int units = spec.block / unit;
  for (int64_t block = 0; block < blocks; ++block, b += record.bytes) {
    for (int u = 0; u < units; ++u, a += rows * (unit + 8)) {
      const std::byte* nibbles = b + record.nibbles_at + u * unit * 4;
      typename V::Shorts dots[groups][rows];
#pragma GCC unroll 4
      for (int v = 0; v < unit / 8; ++v) {
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) {
          const auto both = V::load_bytes(nibbles + g * group_stride + v * 32);
          const auto low = V::low_nibbles(both), high = V::high_nibbles(both);
#pragma GCC unroll 6
          for (int r = 0; r < rows; ++r) {
            const int8_t* q = reinterpret_cast<const int8_t*>(a) + r * unit + v * 4;
            const auto first = V::dot_pairs(low, q);
            dots[g][r] = v == 0 ? first : V::short_add(dots[g][r], first);
            dots[g][r] = V::short_add(dots[g][r], V::dot_pairs(high, q + unit / 2));
          }
        }
      }
      const float* scales = reinterpret_cast<const float*>(a + rows * unit);
      const int32_t* offsets = reinterpret_cast<const int32_t*>(a + rows * (unit + 4));
#pragma GCC unroll 4
      for (int g = 0; g < groups; ++g) {
        const auto weight_scales = load_scales<V>(b + g * group_stride, spec);
#pragma GCC unroll 6
        for (int r = 0; r < rows; ++r) {
          auto offset = V::int_broadcast(offsets[r]);
          if (spec.zero_points != ZeroPoints::none) {
            offset = V::int_mul_small(V::load_bytes_as_ints(b + g * group_stride + record.zero_points_at), offset);
          }
          const auto dot = V::to_floats(V::int_sub(V::sum_pairs(dots[g][r]), offset));
          sums[g][r] = V::fma(V::mul(dot, V::broadcast(scales[r])), weight_scales, sums[g][r]);
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

template <class V, int unit>
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
        return dot_rows<V, unit, r, most>(spec, record, a, b, group_stride, out, rows * kGroupColumns);
      for (int g = 0; g < groups; ++g) {
        dot_rows<V, unit, r, 1>(spec, record, a, b + g * group_stride, 0, out + g * rows * kGroupColumns, 0);
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
void nbits_int_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const MatMulSpec& spec = args.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t rows = tile.row_end - tile.row_begin;
  float* acc = reinterpret_cast<float*>(scratch);
  for (int64_t group = tile.panel_begin; group < tile.panel_end;) {
    const int groups = tile.panel_end - group < groups_at_once(rows) ? 1 : groups_at_once(rows);
    if (unit_of(spec) == 16) {
      dot_groups<V, 16>(args, record, tile, group, groups, acc);
    } else {
      dot_groups<V, 32>(args, record, tile, group, groups, acc);
    }
    for (int g = 0; g < groups; ++g, ++group) {
      const int64_t column = group * kGroupColumns, left = spec.n - column;
      write_out<V>(args, acc + g * rows * kGroupColumns, kGroupColumns, tile.row_begin, tile.row_end, column,
                   left < kGroupColumns ? left : kGroupColumns);
    }
  }
}

// ---- accuracy_level 0

// One unit of k of one group as floats: (q - zero point) * scale at strip[k][0..8), rows of a strip 16 floats apart.
template <class V, int unit>
void dequantise_unit(const std::byte* nibbles, typename V::Floats scales, typename V::Floats zero_points,
                     float* strip) {
  const auto put = [&](int k, typename V::Ints q) {
    V::store(strip + k * kPanelColumns, V::mul(V::sub(V::to_floats(q), zero_points), scales));
  };
#pragma GCC unroll 4
  for (int v = 0; v < unit / 8; ++v) {
    const auto both = V::load_bytes(nibbles + v * 32);
    const auto low = V::low_nibbles(both), high = V::high_nibbles(both);
    put(4 * v, V::template byte_of_lanes<0>(low));
    put(4 * v + 1, V::template byte_of_lanes<1>(low));
    put(4 * v + 2, V::template byte_of_lanes<2>(low));
    put(4 * v + 3, V::template byte_of_lanes<3>(low));
    put(unit / 2 + 4 * v, V::template byte_of_lanes<0>(high));
    put(unit / 2 + 4 * v + 1, V::template byte_of_lanes<1>(high));
    put(unit / 2 + 4 * v + 2, V::template byte_of_lanes<2>(high));
    put(unit / 2 + 4 * v + 3, V::template byte_of_lanes<3>(high));
  }
}

// Elements [k_begin, k_begin + kStripK) of one group, as far as its blocks go, into `strip`. k_begin is a multiple of
// kStripK.
template <class V>
void dequantise_strip(const MatMulSpec& spec, const GroupRecord& record, const std::byte* group, int64_t k_begin,
                      float* strip) {
  const int64_t k_left = blocks_of(spec) * spec.block - k_begin;
  const int unit = unit_of(spec);
  for (int64_t k = 0; k < kStripK && k < k_left; k += unit) {
    const std::byte* at = group + (k_begin + k) / spec.block * record.bytes;
    const auto scales = load_scales<V>(at, spec);
    const auto zero_points = spec.zero_points != ZeroPoints::none
                                 ? V::to_floats(V::load_bytes_as_ints(at + record.zero_points_at))
                                 : V::broadcast(8.0f);
    const std::byte* nibbles = at + record.nibbles_at + (k_begin + k) % spec.block * 4;
    if (unit == 16) {
      dequantise_unit<V, 16>(nibbles, scales, zero_points, strip + k * kPanelColumns);
    } else {
      dequantise_unit<V, 32>(nibbles, scales, zero_points, strip + k * kPanelColumns);
    }
  }
}

// Dequantises strips of a few panels into scratch, where they stay in L1, and runs the float micro-kernel on them.
template <class V>
void nbits_float_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const MatMulSpec& spec = args.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t group_bytes = blocks_of(spec) * record.bytes, groups = divide_up(spec.n, kGroupColumns);
  const int64_t rows = tile.row_end - tile.row_begin;
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
      multiply_panels<V>(args.a + tile.row_begin * args.lda + k, args.lda, rows, panels, strips, kStripFloats, k_count,
                         acc, nullptr);
    }
    write_panels<V>(args, acc, tile.row_begin, tile.row_end, panel, panels);
    panel += panels;
  }
}

}  // namespace ompipe::kernels
