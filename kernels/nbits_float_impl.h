// Products with packed weights of 2, 4 or 8 bits at accuracy_level 0, for any vector type: by strips of dequantised
// weights, or, with few rows, by weights that are dequantised in registers.
#pragma once

#include "matmul_floats_impl.h"
#include "nbits_records.h"

namespace ompipe::kernels {

// Calls put(k, weights) for each k of a part of one vector, 4 of them from `k` on: (q - zero point) * scale, rounded
// once.
template <class V, class Put>
void dequantise_four(typename V::Bytes x, typename V::Floats scales, typename V::Floats zero_points, int k, Put put) {
  const auto value = [&](typename V::Ints q) { return V::mul(V::sub(V::to_floats(q), zero_points), scales); };
  put(k, value(V::template byte_of_lanes<0>(x)));
  put(k + 1, value(V::template byte_of_lanes<1>(x)));
  put(k + 2, value(V::template byte_of_lanes<2>(x)));
  put(k + 3, value(V::template byte_of_lanes<3>(x)));
}

// One unit of k of a register's groups at strip[k][0..lanes), rows of a strip 16 floats apart.
template <class V, int bits, int unit>
void dequantise_unit(const std::byte* quants, int64_t other, typename V::Floats scales, typename V::Floats zero_points,
                     float* strip) {
  constexpr int part_k = unit * bits / 8;
  const auto put = [&](int k, typename V::Floats weights) { V::store(strip + k * kPanelColumns, weights); };
#pragma GCC unroll 8
  for (int v = 0; v < part_k / 4; ++v) {
    const auto all = load_quants<V>(quants + v * 32, other);
    [&]<int... part>(std::integer_sequence<int, part...>) {
      (dequantise_four<V>(part_of<V, bits, part>(all), scales, zero_points, part * part_k + 4 * v, put), ...);
    }(std::make_integer_sequence<int, kParts<bits>>());
  }
}

// Elements [k_begin, k_end) of a register's groups, as far as their blocks go, into `strip`. k_begin is a multiple of
// the unit. Fetches what lies `ahead` bytes on.
template <class V>
void dequantise_strip(const MatMulSpec& spec, const GroupRecord& record, const std::byte* group, int64_t other,
                      int64_t k_begin, int64_t k_end, float* strip, int64_t ahead) {
  const int64_t padded_k = blocks_of(spec) * spec.block, stop = k_end < padded_k ? k_end : padded_k;
  const std::byte* at = group + k_begin / spec.block * record.bytes;
  with_format(spec, [&]<int bits, int unit>() {
    int64_t inside = k_begin % spec.block;
    for (int64_t k = k_begin; k < stop; k += unit, strip += unit * kPanelColumns) {
      const std::byte* quants = at + record.quants_at + inside * bits;
      for (int line = 0; line <= unit * bits; line += 64) {
        V::prefetch(quants + ahead + line);
        if constexpr (kGroupsPerRegister<V> == 2) V::prefetch(quants + ahead + other + line);
      }
      dequantise_unit<V, bits, unit>(quants, other, load_scales<V>(at, other, spec),
                                     load_zero_points<V>(at + record.zero_points_at, other, spec), strip);
      inside += unit;
      if (inside < spec.block) continue;
      inside = 0;
      at += record.bytes;
    }
  });
}

// Sums [p][r] += the tile's rows * elements [k, k + count) of `panels` panels, dequantised into strips.
template <class V>
void multiply_strips(const MatMulArgs& args, const GroupRecord& record, const FloatRows& a, int64_t rows, int64_t k,
                     int64_t count, int64_t panel, int panels, float* strips, const Sums& sums) {
  const MatMulSpec& spec = args.layout->spec;
  const int64_t group_bytes = blocks_of(spec) * record.bytes, groups = divide_up(spec.n, kGroupColumns);
  const int64_t panel_floats = strip_floats(*args.layout);
  // What comes next: the same groups' next strip, or, where a strip is all of k, the next register's groups.
  const int64_t ahead =
      count < spec.k ? divide_up(count, spec.block) * record.bytes : kGroupsPerRegister<V> * group_bytes;
  for (int64_t g = 0; g < 2 * panels; g += kGroupsPerRegister<V>) {
    float* strip = strips + g / 2 * panel_floats + g % 2 * kGroupColumns;
    // A last panel of one group: its other half repeats that group and is never written out.
    const int64_t group = 2 * panel + g < groups ? 2 * panel + g : groups - 1;
    const int64_t other = group + 1 < groups ? group_bytes : 0;
    dequantise_strip<V>(spec, record, args.packed + group * group_bytes, other, k, k + count, strip, ahead);
  }
  multiply_panels<V>(a, rows, k, count, panels, strips, panel_floats, sums, nullptr);
}

// acc[g][r][0..lanes) = row r of a * what register g holds of B. Registers' groups lie `stride` bytes apart: memory
// streams.
template <class V, int bits, int rows, int registers>
void multiply_in_registers(const MatMulSpec& spec, const GroupRecord& record, const FloatRows& a, const std::byte* b,
                           int64_t stride, int64_t other, float* acc) {
  typename V::Floats sums[registers][rows];
  for (int g = 0; g < registers; ++g) {
    for (int r = 0; r < rows; ++r) sums[g][r] = V::zero();
  }
  const int unit = unit_of(spec), units = spec.block / unit;
  int64_t k = 0;
  for (; k + unit <= spec.k; k += unit) {
    const int64_t u = k / unit;
    const std::byte* at = b + u / units * record.bytes;
    const std::byte* quants = at + record.quants_at + u % units * unit * bits;
    typename V::Floats scales[registers], zero_points[registers];
    for (int g = 0; g < registers; ++g) {
      scales[g] = load_scales<V>(at + g * stride, other, spec);
      zero_points[g] = load_zero_points<V>(at + g * stride + record.zero_points_at, other, spec);
    }
    const auto add_part = [&]<int part>() __attribute__((always_inline)) {
      const float* factors = a.data + k + part * (unit * bits / 8);
#pragma GCC unroll 1
      for (int v = 0; v < unit * bits / 32; ++v) {
#pragma GCC unroll 4
        for (int g = 0; g < registers; ++g) {
          const auto x = part_of<V, bits, part>(load_quants<V>(quants + g * stride + v * 32, other));
          dequantise_four<V>(x, scales[g], zero_points[g], 4 * v, [&](int i, typename V::Floats weights) {
            for (int r = 0; r < rows; ++r) {
              sums[g][r] = V::fma(V::broadcast(factors[r * a.stride + i]), weights, sums[g][r]);
            }
          });
        }
      }
    };
    [&]<int... part>(std::integer_sequence<int, part...>) {
      (add_part.template operator()<part>(), ...);
    }(std::make_integer_sequence<int, kParts<bits>>());
  }
  for (int g = 0; g < registers && k < spec.k; ++g) {
    float strip[kMostUnit * kPanelColumns];
    dequantise_strip<V>(spec, record, b + g * stride, other, k, k + unit, strip, 0);
    for (int64_t i = k; i < spec.k; ++i) {
      for (int r = 0; r < rows; ++r) {
        const auto weights = V::load(strip + (i - k) * kPanelColumns);
        sums[g][r] = V::fma(V::broadcast(a.data[r * a.stride + i]), weights, sums[g][r]);
      }
    }
  }
  for (int g = 0; g < registers; ++g) {
    for (int r = 0; r < rows; ++r) V::store(acc + (g * rows + r) * V::kLanes, sums[g][r]);
  }
}

// A tile of at most kPlainRows rows, a few groups at once.
template <class V>
void nbits_few_rows_tile(const MatMulArgs& args, const FloatRows& a, const TileRange& tile, float* acc) {
  const MatMulSpec& spec = args.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t rows = tile.row_end - tile.row_begin, group_bytes = blocks_of(spec) * record.bytes;
  const int64_t groups = divide_up(spec.n, kGroupColumns);
  const TileRange range = {tile.row_begin, tile.row_end, tile.panel_begin * 2,
                           tile.panel_end * 2 < groups ? tile.panel_end * 2 : groups};
  for_streams<V>(range, registers_at_once<V>(rows), [&](int64_t group, int count, int64_t distance) {
    // A last group alone stands in both halves of a register.
    const int64_t other = range.panel_end - group < kGroupsPerRegister<V> ? 0 : group_bytes;
    with_bits(spec, [&]<int bits>() {
      with_rows<kPlainRows>(static_cast<int>(rows), [&]<int r>() {
        constexpr int several = registers_at_once<V>(r);
        const auto run =
            count == several ? multiply_in_registers<V, bits, r, several> : multiply_in_registers<V, bits, r, 1>;
        run(spec, record, a, args.packed + group * group_bytes, distance * group_bytes, other, acc);
      });
    });
    write_streams<V>(args, range, group, count, distance, acc);
  });
}

template <class V>
void nbits_float_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const int64_t k = args.layout->spec.k, rows = tile.row_end - tile.row_begin;
  const FloatRows a = float_rows<V>(args, tile.row_begin);
  const int64_t strip_k = strip_length(k, args.layout->tuning.strip_k);
  float* strips = reinterpret_cast<float*>(scratch);
  float* acc = strips + kStripPanels * strip_floats(*args.layout);
  if (!a.packed) return nbits_few_rows_tile<V>(args, a, tile, acc);
  const GroupRecord record = group_record(args.layout->spec);
  const int most = panels_at_once<V>(rows) < kStripPanels ? panels_at_once<V>(rows) : kStripPanels;
  for (int64_t panel = tile.panel_begin; panel < tile.panel_end;) {
    const int panels = next_panels(tile.panel_end - panel, kBlockPanels, most);
    const int at_once = panels < most ? 1 : most;
    for (int64_t at = 0; at < k; at += strip_k) {
      const int64_t count = k - at < strip_k ? k - at : strip_k;
      for (int p = 0; p < panels; p += at_once) {
        float* const to = acc + p * rows * kPanelColumns;
        Sums sums;
        const bool last = at + count == k, written = find_sums(args, tile, panel + p, at_once, at == 0, last, to, sums);
        multiply_strips<V>(args, record, a, rows, at, count, panel + p, at_once, strips, sums);
        if (last && !written) write_panels<V>(args, to, tile.row_begin, tile.row_end, panel + p, at_once);
      }
    }
    panel += panels;
  }
}

}  // namespace ompipe::kernels
