// The float micro-kernel and the tile of a product with packed float panels, for any vector type (vec_scalar.h,
// vec_avx2.h).
#pragma once

#include "matmul_kernels.h"

namespace ompipe::kernels {

// Sums of rows by panels of 16 columns, before and after an operation: `from` null stands for zeros. Strides in floats;
// the rows of `from` lie 16 apart.
struct Sums {
  const float* from;
  int64_t from_panel;
  float* to;
  int64_t to_row, to_panel;

  Sums part(int64_t row, int64_t panel) const {
    return {from == nullptr ? nullptr : from + row * kPanelColumns + panel * from_panel, from_panel,
            to + row * to_row + panel * to_panel, to_row, to_panel};
  }
};

// What a pass of the micro-kernel fetches on the way: from each of its panels so many cache lines in a row, for every
// so many k, a power of two from 4 on.
struct Fetch {
  const float* from = nullptr;
  int lines = 0;
  unsigned every = 4;
};

// Sums [p][r][0..16) += row r of a[0..k) * panel p, one FMA chain in rising k. Rows lie `lda` floats apart; packed ones
// together, k by k. The panels of B lie `panel_stride` floats apart, those to fetch too.
template <class V, int rows, int panels, bool packed>
[[gnu::noinline]] void multiply_rows(const float* a, int64_t lda, const float* b, int64_t panel_stride, int64_t k,
                                     const Sums& at_sums, Fetch fetch) {
  const auto element = [&](int r, int64_t at)
                           __attribute__((always_inline)) { return packed ? a[at * rows + r] : a[r * lda + at]; };
  constexpr int parts = kPanelColumns / V::kLanes;
  typename V::Floats sums[panels][rows][parts];
  for (int p = 0; p < panels; ++p) {
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < parts; ++i) {
        sums[p][r][i] = at_sums.from == nullptr
                            ? V::zero()
                            : V::load(at_sums.from + p * at_sums.from_panel + r * kPanelColumns + i * V::kLanes);
      }
    }
  }
  const auto step = [&](int64_t at) __attribute__((always_inline)) {
    const float* line = b + at * kPanelColumns;
    if constexpr (parts == 1) {
      // There is a register for every panel's line beside the accumulators, so each factor is broadcast once.
      typename V::Floats lines[panels];
      for (int p = 0; p < panels; ++p) lines[p] = V::load(line + p * panel_stride);
      for (int r = 0; r < rows; ++r) {
        const auto factor = V::broadcast(element(r, at));
        for (int p = 0; p < panels; ++p) sums[p][r][0] = V::fma(factor, lines[p], sums[p][r][0]);
      }
    } else {
      for (int p = 0; p < panels; ++p, line += panel_stride) {
        const auto low = V::load(line), high = V::load(line + 8);
        for (int r = 0; r < rows; ++r) {
          const auto factor = V::broadcast(element(r, at));
          sums[p][r][0] = V::fma(factor, low, sums[p][r][0]);
          sums[p][r][1] = V::fma(factor, high, sums[p][r][1]);
        }
      }
    }
  };
  int64_t at = 0;
  for (; at + 4 <= k; at += 4) {
    if ((at & (fetch.every - 1)) == 0) {
      for (int line = 0; line < fetch.lines; ++line) {
        for (int p = 0; p < panels; ++p) V::prefetch(fetch.from + p * panel_stride + line * kPanelColumns);
      }
      fetch.from += fetch.lines * kPanelColumns;
    }
    for (int i = 0; i < 4; ++i) step(at + i);
  }
  for (; at < k; ++at) step(at);
  for (int p = 0; p < panels; ++p) {
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < parts; ++i) {
        V::store(at_sums.to + p * at_sums.to_panel + r * at_sums.to_row + i * V::kLanes, sums[p][r][i]);
      }
    }
  }
}

// How many panels the micro-kernel takes at once: with few rows, several, for enough accumulators and memory streams.
template <class V>
constexpr int panels_at_once(int64_t rows) {
  if (rows == 1) return 4;
  return rows <= V::kRowsOfTwoPanels || V::kRowsOfTwoPanels == V::kFloatRows ? 2 : 1;
}

template <class V, int rows, bool packed>
void multiply_rows_any(int panels, const float* a, int64_t lda, const float* b, int64_t panel_stride, int64_t k,
                       const Sums& sums, Fetch fetch) {
  constexpr int most = panels_at_once<V>(rows);
  if (panels == most) {
    return multiply_rows<V, rows, most, packed>(a, lda, b, panel_stride, k, sums, fetch);
  }
  for (int p = 0; p < panels; ++p) {
    multiply_rows<V, rows, 1, packed>(a, lda, b + p * panel_stride, 0, k, sums.part(0, p), {});
  }
}

// Rows of A from one on: as they lie, at most kPlainRows, or as prepare_floats packed them, from the first of a row
// block on.
struct FloatRows {
  const float* data;
  int64_t stride;
  bool packed;
};
template <class V>
FloatRows float_rows(const MatMulArgs& args, int64_t row) {
  const bool packed = args.m > kPlainRows, shared = packed || args.type == ElementType::f16;
  const int64_t stride = shared ? args.layout->spec.k : args.lda;
  const void* data = shared ? args.shared_scratch : args.a;
  return {static_cast<const float*>(data) + row * stride, stride, packed};
}

// Sums [p][r] += elements [k, k + count) of all `rows` rows of a * `panels` panels (at most panels_at_once(rows)).
// `next`: where as much will be read next, or null. It is fetched with the last row tiles, so that A doesn't push it
// out of L2 again, and slowly where there are many, so that A's lines don't wait behind it.
template <class V>
void multiply_panels(const FloatRows& a, int64_t rows, int64_t k, int64_t count, int panels, const float* b,
                     int64_t panel_stride, const Sums& sums, const float* next) {
  const int64_t row_tiles = divide_up(rows, V::kFloatRows);
  // A line for every 4 to 16 k with each of as many tiles; more lines for every 4 k where there are fewer.
  unsigned spread = 1;
  while (spread < 16 && 2 * spread <= row_tiles) spread *= 2;
  const unsigned every = spread < 4 ? 4 : spread;
  const int lines = static_cast<int>(every / spread);
  int64_t left = row_tiles;
  for_row_tiles({0, rows, 0, 1}, V::kFloatRows, [&](int64_t row, int tile_rows) {
    const bool fetches = next != nullptr && left <= spread;
    const Fetch fetch =
        fetches ? Fetch{next + (spread - left) * (count / every) * lines * kPanelColumns, lines, every} : Fetch{};
    --left;
    with_rows<V::kFloatRows>(tile_rows, [&]<int r>() {
      const float* from = a.data + row * a.stride + k * (a.packed ? r : 1);
      if constexpr (r <= kPlainRows) {
        if (!a.packed) {
          return multiply_rows_any<V, r, false>(panels, from, a.stride, b, panel_stride, count, sums.part(row, 0),
                                                fetch);
        }
      }
      multiply_rows_any<V, r, true>(panels, from, 0, b, panel_stride, count, sums.part(row, 0), fetch);
    });
  });
}

// Elements of a row of A from i on, a vector's, and one.
template <class V>
auto load_row(const MatMulArgs& args, int64_t row, int64_t i) {
  const int64_t at = row * args.lda + i;
  return args.type == ElementType::f16 ? V::load_half(static_cast<const uint16_t*>(args.a) + at)
                                       : V::load(static_cast<const float*>(args.a) + at);
}
template <class V>
float row_element(const MatMulArgs& args, int64_t row, int64_t i) {
  const int64_t at = row * args.lda + i;
  return args.type == ElementType::f16 ? V::half_to_float(static_cast<const uint16_t*>(args.a)[at])
                                       : static_cast<const float*>(args.a)[at];
}

// Rows [row, row + rows) for one call of the micro-kernel, k by k.
template <class V, int rows>
void pack_row_tile(const MatMulArgs& args, int64_t row, float* out) {
  const int64_t k = args.layout->spec.k;
  int64_t i = 0;
  if constexpr (rows == 1) {
    for (; i + V::kLanes <= k; i += V::kLanes) V::store(out + i, load_row<V>(args, row, i));
  } else if constexpr (V::kLanes == 8) {
    // Eight floats are stored where `rows` belong; the next ones go over the rest, which ends within the tile.
    for (; i + 16 <= k; i += 8) {
      typename V::Floats block[8];
      for (int r = 0; r < 8; ++r) block[r] = r < rows ? load_row<V>(args, row + r, i) : V::zero();
      V::transpose(block);
      for (int j = 0; j < 8; ++j) V::store(out + (i + j) * rows, block[j]);
    }
  }
  for (; i < k; ++i) {
    for (int r = 0; r < rows; ++r) out[i * rows + r] = row_element<V>(args, row + r, i);
  }
}

// For a micro-kernel of at most `most` rows.
template <class V, int most = V::kFloatRows>
void prepare_floats(const MatMulArgs& args, const RowPart& part) {
  const int64_t k = args.layout->spec.k;
  float* shared = reinterpret_cast<float*>(args.shared_scratch);
  for_row_tiles(part, args.m <= kPlainRows ? 1 : most, [&](int64_t row, int rows) {
    with_rows<most>(rows, [&]<int r>() { pack_row_tile<V, r>(args, row, shared + row * k); });
  });
}

// write_out for f16.
template <class V>
void write_halves(const MatMulArgs& args, const float* acc, int64_t acc_stride, int64_t row_begin, int64_t row_end,
                  int64_t column, int64_t columns) {
  const uint16_t* c = static_cast<const uint16_t*>(args.c);
  for (int64_t row = row_begin; row < row_end; ++row, acc += acc_stride) {
    float values[V::kLanes] = {};
    for (int64_t j = 0; j < columns; ++j) {
      values[j] = args.alpha * acc[j];
      if (c == nullptr) continue;
      const float addend = V::half_to_float(c[row * args.c_row_stride + (column + j) * args.c_column_stride]);
      values[j] = V::scalar_fma(args.beta, addend, values[j]);
    }
    uint16_t halves[V::kLanes];
    V::store_half(halves, V::load(values));
    uint16_t* out = static_cast<uint16_t*>(args.out) + row * args.ldc + column;
    __builtin_memcpy(out, halves, size_t(columns) * sizeof(uint16_t));
  }
}

// out = alpha * acc + beta * c for rows [row_begin, row_end) and `columns` columns from `column`, whose sums lie
// `acc_stride` floats a row apart.
template <class V>
void write_out(const MatMulArgs& args, const float* acc, int64_t acc_stride, int64_t row_begin, int64_t row_end,
               int64_t column, int64_t columns) {
  if (args.type == ElementType::f16) return write_halves<V>(args, acc, acc_stride, row_begin, row_end, column, columns);
  const float* c = static_cast<const float*>(args.c);
  for (int64_t row = row_begin; row < row_end; ++row, acc += acc_stride) {
    float* out = static_cast<float*>(args.out) + row * args.ldc + column;
    if (c == nullptr && args.alpha == 1 && columns == V::kLanes) {
      V::store(out, V::load(acc));
      continue;
    }
    for (int64_t j = 0; j < columns; ++j) {
      float value = args.alpha * acc[j];
      if (c != nullptr) {
        const float addend = c[row * args.c_row_stride + (column + j) * args.c_column_stride];
        value = V::scalar_fma(args.beta, addend, value);
      }
      out[j] = value;
    }
  }
}

// Writes the sums of whole panels, 16 columns each, and of the part of the last one that lies inside N.
template <class V>
void write_panels(const MatMulArgs& args, const float* acc, int64_t row_begin, int64_t row_end, int64_t panel,
                  int panels) {
  const int64_t n = args.layout->spec.n, rows = row_end - row_begin;
  for (int p = 0; p < panels; ++p) {
    for (int part = 0; part < kPanelColumns; part += V::kLanes) {
      const int64_t column = (panel + p) * kPanelColumns + part;
      if (column >= n) return;
      write_out<V>(args, acc + p * rows * kPanelColumns + part, kPanelColumns, row_begin, row_end, column,
                   n - column < V::kLanes ? n - column : V::kLanes);
    }
  }
}

// Writes the sums of `count` registers' groups of 8 columns, `distance` groups apart from `group` on.
template <class V>
void write_streams(const MatMulArgs& args, const TileRange& tile, int64_t group, int count, int64_t distance,
                   const float* acc) {
  const int64_t rows = tile.row_end - tile.row_begin;
  for (int g = 0; g < count; ++g, group += distance, acc += rows * V::kLanes) {
    const int64_t column = group * kGroupColumns;
    const int64_t end =
        tile.panel_end * kGroupColumns < args.layout->spec.n ? tile.panel_end * kGroupColumns : args.layout->spec.n;
    write_out<V>(args, acc, V::kLanes, tile.row_begin, tile.row_end, column,
                 end - column < V::kLanes ? end - column : V::kLanes);
  }
}

// Where a tile's strip of k adds to the sums of `panels` panels from `panel` on: between strips they stand in `acc`,
// and behind the last one in the output itself if they are it. Returns whether they are; else write_panels has to
// follow.
inline bool find_sums(const MatMulArgs& args, const TileRange& tile, int64_t panel, int panels, bool first, bool last,
                      float* acc, Sums& sums) {
  const int64_t panel_floats = (tile.row_end - tile.row_begin) * kPanelColumns;
  sums = {first ? nullptr : acc, panel_floats, acc, kPanelColumns, panel_floats};
  const bool plain = args.type == ElementType::f32 && args.c == nullptr && args.alpha == 1;
  if (!last || !plain || (panel + panels) * kPanelColumns > args.layout->spec.n) return false;
  sums.to = static_cast<float*>(args.out) + tile.row_begin * args.ldc + panel * kPanelColumns;
  sums.to_row = args.ldc;
  sums.to_panel = kPanelColumns;
  return true;
}

// Many rows pass over a few panels in parts of k, which they then find in L2; few rows over each panel in one piece.
template <class V>
FloatBlock block_of(const MatMulArgs& args, int64_t rows) {
  static_assert(panels_at_once<V>(1) <= kBlockPanels, "a tile has scratch for the sums of kBlockPanels");
  if (rows < kBlockedRows) return {panels_at_once<V>(rows), args.layout->spec.k};
  return {kBlockPanels, strip_length(args.layout->spec.k, args.layout->tuning.strip_k)};
}

// Panels of the next block, of `left`: a multiple of at_once, or 1.
inline int next_panels(int64_t left, int most, int at_once) {
  return left >= most ? most : left < at_once ? 1 : static_cast<int>(left / at_once * at_once);
}

template <class V>
void floats_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const int64_t k = args.layout->spec.k, rows = tile.row_end - tile.row_begin;
  const FloatRows a = float_rows<V>(args, tile.row_begin);
  const FloatBlock block = block_of<V>(args, rows);
  const float* packed = reinterpret_cast<const float*>(args.packed);
  const auto weights = [&](int64_t panel, int64_t at) { return packed + (panel * k + at) * kPanelColumns; };
  float* acc = reinterpret_cast<float*>(scratch);
  for (int64_t panel = tile.panel_begin; panel < tile.panel_end;) {
    const int64_t left = tile.panel_end - panel;
    const int panels = next_panels(left, block.panels, panels_at_once<V>(rows));
    const int at_once = panels < panels_at_once<V>(rows) ? 1 : panels_at_once<V>(rows);
    // The next panel is fetched past the end of the tile too, as long as the tile that follows is the next panel's:
    // with two panels a tile that took M = 8 from 69 to 94 GFLOP/s.
    const bool has_next =
        (panel + panels) * kPanelColumns < args.layout->spec.n && (left > panels || tile.row_end == args.m);
    const float* after = has_next ? weights(panel + panels, 0) : nullptr;
    for (int64_t at = 0; at < k; at += block.k) {
      const int64_t count = k - at < block.k ? k - at : block.k;
      for (int p = 0; p < panels; p += at_once) {
        const float* next = p + at_once < panels ? weights(panel + p + at_once, at)
                            : at + count < k     ? weights(panel, at + count)
                                                 : after;
        float* const to = acc + p * rows * kPanelColumns;
        Sums sums;
        const bool last = at + count == k, written = find_sums(args, tile, panel + p, at_once, at == 0, last, to, sums);
        multiply_panels<V>(a, rows, at, count, at_once, weights(panel + p, at), k * kPanelColumns, sums,
                           rows > kPlainRows ? next : nullptr);
        if (last && !written) write_panels<V>(args, to, tile.row_begin, tile.row_end, panel + p, at_once);
      }
    }
    panel += panels;
  }
}

}  // namespace ompipe::kernels
