// Exact products of int8 with packed int8 weights, for any vector type; preparing A for those of eight lanes.
//
// A is brought to int8 and B to uint8, whatever they are in the file: 128 is subtracted or added, and the zero points
// go along. Where dots are summed in 16 bits, products are taken by nibbles of B, whose sums of a unit fit:
// 15 * 128 * 16 = 30720.
#pragma once

#include "matmul_integer_kernels.h"
#include "nbits_records.h"

namespace ompipe::kernels {

// Rows as row tiles: of each unit of k rows x int8[32], then rows x int32 sums.
template <class V>
void prepare_bytes(const MatMulIntegerArgs& args, const RowPart& part) {
  const MatMulSpec& spec = args.layout->spec;
  const int64_t units = byte_units(spec);
  const int flip = args.a_signed ? 0 : 128;
  for_row_tiles(part, kRowsPerTile, [&](int64_t row, int rows) {
    std::byte* to = args.shared_scratch + row * byte_row_bytes(spec);
    for (int r = 0; r < rows; ++r) {
      const std::byte* from = static_cast<const std::byte*>(args.a) + (row + r) * args.lda;
      uint32_t sum = 0;
      for (int64_t unit = 0; unit < units; ++unit) {
        const int64_t left = spec.k - unit * kByteUnit, count = left < kByteUnit ? left : kByteUnit;
        int8_t* q = reinterpret_cast<int8_t*>(to + (unit * rows + r) * kByteUnit);
        sum += uint32_t(V::signed_bytes(from + unit * kByteUnit, int(count), flip, q));
      }
      __builtin_memcpy(to + units * rows * kByteUnit + r * 4, &sum, 4);
    }
  });
}

// acc[g][r][0..lanes) = row r of the row tile `a` * what register g holds of B: one or two groups; sums[g][0..lanes)
// those of B's columns, if with_sums. Registers' groups lie `stride` bytes apart: memory streams.
template <class V, int rows, int registers, bool with_sums>
void dot_bytes(int64_t units, const std::byte* a, const std::byte* b, int64_t stride, int64_t other, int32_t* acc,
               int64_t acc_stride, int32_t* column_sums) {
  typename V::Ints sums[registers][rows], totals[registers];
  for (int g = 0; g < registers; ++g) {
    totals[g] = V::int_broadcast(0);
    for (int r = 0; r < rows; ++r) sums[g][r] = V::int_broadcast(0);
  }
  for (int64_t unit = 0; unit < units; ++unit, a += rows * kByteUnit, b += kByteUnitBytes) {
    typename V::Dots low[registers][rows], high[registers][rows];
#pragma GCC unroll 8
    for (int v = 0; v < kByteUnit / 4; ++v) {
#pragma GCC unroll 4
      for (int g = 0; g < registers; ++g) {
        const auto bytes = load_quants<V>(b + g * stride + v * 32, other);
        if constexpr (with_sums) totals[g] = V::add_bytes(totals[g], bytes);
        const auto low_halves = V::low_nibbles(bytes), high_halves = V::high_nibbles(bytes);
#pragma GCC unroll 6
        for (int r = 0; r < rows; ++r) {
          const int8_t* q = reinterpret_cast<const int8_t*>(a) + r * kByteUnit + v * 4;
          if constexpr (V::kDotsOfBytes) {
            sums[g][r] = V::add_dot(sums[g][r], bytes, q);
          } else {
            low[g][r] = v == 0 ? V::first_dot(low_halves, q) : V::add_dot(low[g][r], low_halves, q);
            high[g][r] = v == 0 ? V::first_dot(high_halves, q) : V::add_dot(high[g][r], high_halves, q);
          }
        }
      }
    }
    if constexpr (!V::kDotsOfBytes) {
#pragma GCC unroll 4
      for (int g = 0; g < registers; ++g) {
#pragma GCC unroll 6
        for (int r = 0; r < rows; ++r) {
          const auto dot = V::int_add(V::sum_dots(low[g][r]), V::sum_dots_times_16(high[g][r]));
          sums[g][r] = V::int_add(sums[g][r], dot);
        }
      }
    }
  }
  for (int g = 0; g < registers; ++g) {
    if constexpr (with_sums) V::int_store(column_sums + g * V::kLanes, totals[g]);
    for (int r = 0; r < rows; ++r) V::int_store(acc + g * acc_stride + r * V::kLanes, sums[g][r]);
  }
}

// Adds what the zero points make and writes `columns` columns from `begin` on. In unsigned arithmetic: it wraps.
template <class V>
void write_bytes(const MatMulIntegerArgs& args, const TileRange& tile, int64_t begin, int columns, const int32_t* acc,
                 const int32_t* column_sums) {
  const MatMulSpec& spec = args.layout->spec;
  const uint32_t a_zero = uint32_t(a_zero_point(args));
  uint32_t b_zeros[V::kLanes], constants[V::kLanes];
  for (int j = 0; j < columns; ++j) {
    b_zeros[j] = uint32_t(b_zero_point(args, begin + j));
    constants[j] = uint32_t(spec.k) * a_zero * b_zeros[j] - a_zero * uint32_t(column_sums[j]);
  }
  for_row_tiles(all_rows(tile), kRowsPerTile, [&](int64_t row, int rows) {
    const std::byte* sums =
        args.shared_scratch + row * byte_row_bytes(spec) + byte_units(spec) * rows * int64_t{kByteUnit};
    for (int r = 0; r < rows; ++r, acc += V::kLanes) {
      int32_t row_sum;
      __builtin_memcpy(&row_sum, sums + r * 4, 4);
      int32_t* out = args.out + (row + r) * args.ldc + begin;
      for (int j = 0; j < columns; ++j) {
        out[j] = int32_t(uint32_t(acc[j]) + constants[j] - b_zeros[j] * uint32_t(row_sum));
      }
    }
  });
}

template <class V>
void integer_tile(const MatMulIntegerArgs& args, const TileRange& tile, std::byte* scratch) {
  const MatMulSpec& spec = args.layout->spec;
  const int64_t rows = tile.row_end - tile.row_begin, units = byte_units(spec), group_bytes = units * kByteUnitBytes;
  int32_t* acc = reinterpret_cast<int32_t*>(scratch);
  int32_t* column_sums = acc + 4 * kMaxByteRows * kGroupColumns;
  const bool needs_sums = a_zero_point(args) != 0;
  for (int i = 0; i < 4 * kGroupColumns; ++i) column_sums[i] = 0;
  for_streams<V>(tile, registers_at_once<V>(rows), [&](int64_t group, int count, int64_t distance) {
    // A last group alone stands in both halves of a register.
    const int64_t other = tile.panel_end - group < kGroupsPerRegister<V> ? 0 : group_bytes;
    const std::byte* b = args.packed + group * group_bytes;
    for_row_tiles(all_rows(tile), kRowsPerTile, [&](int64_t row, int row_count) {
      const std::byte* a = args.shared_scratch + row * byte_row_bytes(spec);
      int32_t* to = acc + (row - tile.row_begin) * V::kLanes;
      with_rows<kRowsPerTile>(row_count, [&]<int r>() {
        constexpr int most = registers_at_once<V>(r);
        // A tile of more rows takes registers one by one, whatever its last rows could.
        const auto run = needs_sums && row == tile.row_begin
                             ? (count == most ? dot_bytes<V, r, most, true> : dot_bytes<V, r, 1, true>)
                             : (count == most ? dot_bytes<V, r, most, false> : dot_bytes<V, r, 1, false>);
        run(units, a, b, distance * group_bytes, other, to, rows * V::kLanes, column_sums);
      });
    });
    for (int g = 0; g < count; ++g, group += distance) {
      const int64_t begin = group * kGroupColumns;
      const int64_t end = tile.panel_end * kGroupColumns < spec.n ? tile.panel_end * kGroupColumns : spec.n;
      write_bytes<V>(args, tile, begin, int(end - begin < V::kLanes ? end - begin : V::kLanes),
                     acc + g * rows * V::kLanes, column_sums + g * V::kLanes);
    }
  });
}

}  // namespace ompipe::kernels
