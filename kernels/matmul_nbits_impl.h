// Products with packed 4-bit weights for any vector type: at accuracy_level 4 by integer dots, at 0 by dequantised
// strips.
#pragma once

#include "matmul_floats_impl.h"
#include "matmul_kernels.h"

namespace ompipe::kernels {

// A register holds what is one group's, or two groups' side by side. Then `other` is the distance from the one's bytes
// to the other's.
template <class V>
inline constexpr int kGroupsPerRegister = V::kLanes / kGroupColumns;

template <class V>
typename V::Floats load_scales(const std::byte* record, int64_t other, const MatMulSpec& spec) {
  if constexpr (kGroupsPerRegister<V> == 2) {
    if (spec.scale_type == ScaleType::f16) return V::load_half(record, record + other);
    return V::load(record, record + other);
  } else {
    if (spec.scale_type == ScaleType::f16) return V::load_half(record);
    return V::load(record);
  }
}

template <class V>
typename V::Ints load_zero_points(const std::byte* at, int64_t other) {
  if constexpr (kGroupsPerRegister<V> == 2) {
    return V::load_bytes_as_ints(at, at + other);
  } else {
    return V::load_bytes_as_ints(at);
  }
}

template <class V>
typename V::Bytes load_nibbles(const std::byte* at, int64_t other) {
  if constexpr (kGroupsPerRegister<V> == 2) {
    return V::load_bytes(at, at + other);
  } else {
    return V::load_bytes(at);
  }
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

// acc[g][r][0..lanes) = row r of the row tile `a` * what register g holds of B: one or two groups. Registers' groups
// lie `group_stride` bytes apart: memory streams.
template <class V, int unit, int rows, int groups>
void dot_rows(const MatMulSpec& spec, const GroupRecord& record, const std::byte* a, const std::byte* b,
              int64_t group_stride, int64_t other, float* acc, int64_t acc_stride) {
  typename V::Floats sums[groups][rows];
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < rows; ++r) sums[g][r] = V::zero();
  }
  const int64_t blocks = blocks_of(spec);
  const int units = spec.block / unit;
  for (int64_t block = 0; block < blocks; ++block, b += record.bytes) {
    for (int u = 0; u < units; ++u, a += rows * (unit + 8)) {
      const std::byte* nibbles = b + record.nibbles_at + u * unit * 4;
      typename V::Dots dots[groups][rows];
#pragma GCC unroll 4
      for (int v = 0; v < unit / 8; ++v) {
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) {
          const auto both = load_nibbles<V>(nibbles + g * group_stride + v * 32, other);
          const auto low = V::low_nibbles(both), high = V::high_nibbles(both);
#pragma GCC unroll 6
          for (int r = 0; r < rows; ++r) {
            const int8_t* q = reinterpret_cast<const int8_t*>(a) + r * unit + v * 4;
            dots[g][r] = v == 0 ? V::first_dot(low, q) : V::add_dot(dots[g][r], low, q);
            dots[g][r] = V::add_dot(dots[g][r], high, q + unit / 2);
          }
        }
      }
      const float* scales = reinterpret_cast<const float*>(a + rows * unit);
      const int32_t* offsets = reinterpret_cast<const int32_t*>(a + rows * (unit + 4));
#pragma GCC unroll 4
      for (int g = 0; g < groups; ++g) {
        const auto weight_scales = load_scales<V>(b + g * group_stride, other, spec);
#pragma GCC unroll 6
        for (int r = 0; r < rows; ++r) {
          auto offset = V::int_broadcast(offsets[r]);
          if (spec.zero_points != ZeroPoints::none) {
            const std::byte* zero_points = b + g * group_stride + record.zero_points_at;
            offset = V::int_mul_small(load_zero_points<V>(zero_points, other), offset);
          }
          const auto dot = V::to_floats(V::int_sub(V::sum_dots(dots[g][r]), offset));
          sums[g][r] = V::fma(V::mul(dot, V::broadcast(scales[r])), weight_scales, sums[g][r]);
        }
      }
    }
  }
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < rows; ++r) V::store(acc + g * acc_stride + r * V::kLanes, sums[g][r]);
  }
}

// How many registers' groups the micro-kernel takes at once: a lone row wants four memory streams that share its
// broadcasts.
template <class V>
constexpr int registers_at_once(int64_t rows) {
  const int groups = rows == 1 ? 4 : rows == 2 ? 2 : 1;
  return groups < kGroupsPerRegister<V> ? 1 : groups / kGroupsPerRegister<V>;
}

// All rows of a tile with `count` (1 or registers_at_once) registers' groups from `group` on.
template <class V, int unit>
void dot_groups(const MatMulArgs& args, const GroupRecord& record, const TileRange& tile, int64_t group, int count,
                float* acc) {
  const MatMulSpec& spec = args.layout->spec;
  const int64_t rows = tile.row_end - tile.row_begin, group_bytes = blocks_of(spec) * record.bytes;
  const int64_t stride = group_bytes * kGroupsPerRegister<V>, acc_stride = rows * V::kLanes;
  // A last group alone stands in both halves of a register.
  const int64_t other = tile.panel_end - group < kGroupsPerRegister<V> ? 0 : group_bytes;
  const std::byte* b = args.packed + group * group_bytes;
  for (int64_t done = 0; done < rows;) {
    const int row_count = next_rows(rows - done);
    const std::byte* a = args.shared_scratch + (tile.row_begin + done) * quantised_row_bytes(spec);
    with_rows<kRowsPerTile>(row_count, [&]<int r>() {
      constexpr int most = registers_at_once<V>(r);
      float* out = acc + done * V::kLanes;
      if (count == most) return dot_rows<V, unit, r, most>(spec, record, a, b, stride, other, out, acc_stride);
      for (int g = 0; g < count; ++g) {
        dot_rows<V, unit, r, 1>(spec, record, a, b + g * stride, 0, other, out + g * acc_stride, 0);
      }
    });
    done += row_count;
  }
}

template <class V>
void nbits_int_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const MatMulSpec& spec = args.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t rows = tile.row_end - tile.row_begin;
  const int64_t end = tile.panel_end * kGroupColumns < spec.n ? tile.panel_end * kGroupColumns : spec.n;
  float* acc = reinterpret_cast<float*>(scratch);
  for (int64_t group = tile.panel_begin; group < tile.panel_end;) {
    const int most = registers_at_once<V>(rows);
    const int count = tile.panel_end - group < most * kGroupsPerRegister<V> ? 1 : most;
    if (unit_of(spec) == 16) {
      dot_groups<V, 16>(args, record, tile, group, count, acc);
    } else {
      dot_groups<V, 32>(args, record, tile, group, count, acc);
    }
    for (int g = 0; g < count; ++g, group += kGroupsPerRegister<V>) {
      const int64_t column = group * kGroupColumns, left = end - column;
      write_out<V>(args, acc + g * rows * V::kLanes, V::kLanes, tile.row_begin, tile.row_end, column,
                   left < V::kLanes ? left : V::kLanes);
    }
  }
}

// ---- accuracy_level 0

// One unit of k of a register's groups as floats: (q - zero point) * scale at strip[k][0..lanes), rows of a strip 16
// floats apart.
template <class V, int unit>
void dequantise_unit(const std::byte* nibbles, int64_t other, typename V::Floats scales, typename V::Floats zero_points,
                     float* strip) {
  const auto put = [&](int k, typename V::Ints q) {
    V::store(strip + k * kPanelColumns, V::mul(V::sub(V::to_floats(q), zero_points), scales));
  };
#pragma GCC unroll 4
  for (int v = 0; v < unit / 8; ++v) {
    const auto both = load_nibbles<V>(nibbles + v * 32, other);
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

// Elements [k_begin, k_begin + kStripK) of a register's groups, as far as their blocks go, into `strip`. k_begin is a
// multiple of kStripK.
template <class V>
void dequantise_strip(const MatMulSpec& spec, const GroupRecord& record, const std::byte* group, int64_t other,
                      int64_t k_begin, float* strip) {
  const int64_t k_left = blocks_of(spec) * spec.block - k_begin;
  const int unit = unit_of(spec);
  for (int64_t k = 0; k < kStripK && k < k_left; k += unit) {
    const std::byte* at = group + (k_begin + k) / spec.block * record.bytes;
    const auto scales = load_scales<V>(at, other, spec);
    const auto zero_points = spec.zero_points != ZeroPoints::none
                                 ? V::to_floats(load_zero_points<V>(at + record.zero_points_at, other))
                                 : V::broadcast(8.0f);
    const std::byte* nibbles = at + record.nibbles_at + (k_begin + k) % spec.block * 4;
    if (unit == 16) {
      dequantise_unit<V, 16>(nibbles, other, scales, zero_points, strip + k * kPanelColumns);
    } else {
      dequantise_unit<V, 32>(nibbles, other, scales, zero_points, strip + k * kPanelColumns);
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
    const int panels = tile.panel_end - panel < panels_at_once<V>(rows) ? 1 : panels_at_once<V>(rows);
    __builtin_memset(acc, 0, panels * rows * kPanelColumns * sizeof(float));
    for (int64_t k = 0; k < spec.k; k += kStripK) {
      for (int64_t g = 0; g < 2 * panels; g += kGroupsPerRegister<V>) {
        float* strip = strips + g / 2 * kStripFloats + g % 2 * kGroupColumns;
        // A last panel of one group: its other half repeats that group and is never written out.
        const int64_t group = 2 * panel + g < groups ? 2 * panel + g : groups - 1;
        const int64_t other = group + 1 < groups ? group_bytes : 0;
        dequantise_strip<V>(spec, record, args.packed + group * group_bytes, other, k, strip);
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
