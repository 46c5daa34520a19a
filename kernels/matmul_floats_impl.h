// The float micro-kernel and the tile of a product with packed float panels, for any vector type (vec_scalar.h,
// vec_avx2.h).
#pragma once

#include "matmul_kernels.h"

namespace ompipe::kernels {

// acc[p][r][0..16) += a[r][0..k) * panel p, one FMA chain in rising k. The panels of B lie `panel_stride` floats apart,
// the accumulators of one panel `acc_stride` apart. Fetches `fetch_lines` cache lines at `fetch` for every 4 k on the
// way.
template <class V, int rows, int panels>
[[gnu::noinline]] void multiply_rows(const float* a, int64_t lda, const float* b, int64_t panel_stride, int64_t k,
                                     float* acc, int64_t acc_stride, const float* fetch, int fetch_lines) {
  constexpr int parts = kPanelColumns / V::kLanes;
  typename V::Floats sums[panels][rows][parts];
  for (int p = 0; p < panels; ++p) {
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < parts; ++i) {
        sums[p][r][i] = V::load(acc + p * acc_stride + r * kPanelColumns + i * V::kLanes);
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
        const auto factor = V::broadcast(a[r * lda + at]);
        for (int p = 0; p < panels; ++p) sums[p][r][0] = V::fma(factor, lines[p], sums[p][r][0]);
      }
    } else {
      for (int p = 0; p < panels; ++p, line += panel_stride) {
        const auto low = V::load(line), high = V::load(line + 8);
        for (int r = 0; r < rows; ++r) {
          const auto factor = V::broadcast(a[r * lda + at]);
          sums[p][r][0] = V::fma(factor, low, sums[p][r][0]);
          sums[p][r][1] = V::fma(factor, high, sums[p][r][1]);
        }
      }
    }
  };
  int64_t at = 0;
  for (; at + 4 <= k; at += 4) {
    for (int line = 0; line < fetch_lines; ++line) V::prefetch(fetch + line * kPanelColumns);
    fetch += fetch_lines * kPanelColumns;
    for (int i = 0; i < 4; ++i) step(at + i);
  }
  for (; at < k; ++at) step(at);
  for (int p = 0; p < panels; ++p) {
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < parts; ++i) {
        V::store(acc + p * acc_stride + r * kPanelColumns + i * V::kLanes, sums[p][r][i]);
      }
    }
  }
}

// How many panels the micro-kernel takes at once: with few rows, several, for enough accumulators and memory streams.
template <class V>
constexpr int panels_at_once(int64_t rows) {
  return rows == 1 ? 4 : rows <= V::kRowsOfTwoPanels ? 2 : 1;
}

template <class V, int rows>
void multiply_rows_any(int panels, const float* a, int64_t lda, const float* b, int64_t panel_stride, int64_t k,
                       float* acc, int64_t acc_stride, const float* fetch, int fetch_lines) {
  constexpr int most = panels_at_once<V>(rows);
  if (panels == most) {
    return multiply_rows<V, rows, most>(a, lda, b, panel_stride, k, acc, acc_stride, fetch, fetch_lines);
  }
  for (int p = 0; p < panels; ++p) {
    multiply_rows<V, rows, 1>(a, lda, b + p * panel_stride, 0, k, acc + p * acc_stride, 0, fetch, 0);
  }
}

// acc[p][r] += all `rows` rows of a * `panels` panels (at most panels_at_once(rows)). `fetch`: what will be read next,
// `panels * k` lines long, or null; its prefetch is spread evenly over the row tiles (M = 32 from 52 to 65 GFLOP/s on
// Zen 3).
template <class V>
void multiply_panels(const float* a, int64_t lda, int64_t rows, int panels, const float* b, int64_t panel_stride,
                     int64_t k, float* acc, const float* fetch) {
  const int64_t row_tiles = divide_up(rows, V::kFloatRows);
  const int fetch_lines = fetch == nullptr ? 0 : (row_tiles >= 3 ? 1 : row_tiles == 2 ? 2 : 4) * panels;
  int64_t fetched = 0;
  for (int64_t done = 0; done < rows;) {
    const int count = next_rows(rows - done, V::kFloatRows);
    const int lines = fetched + fetch_lines * (k / 4) <= panels * k ? fetch_lines : 0;
    with_rows<V::kFloatRows>(count, [&]<int r>() {
      multiply_rows_any<V, r>(panels, a + done * lda, lda, b, panel_stride, k, acc + done * kPanelColumns,
                              rows * kPanelColumns, fetch + fetched * kPanelColumns, lines);
    });
    fetched += lines * (k / 4);
    done += count;
  }
}

// Rows of A as floats: A itself, or what convert_rows made of it.
struct FloatRows {
  const float* data;
  int64_t stride;
};
template <class V>
FloatRows float_rows(const MatMulArgs& args, int64_t row) {
  const bool half = args.type == ElementType::f16;
  const int64_t stride = half ? args.layout->spec.k : args.lda;
  const void* data = half ? args.shared_scratch : args.a;
  return {static_cast<const float*>(data) + row * stride, stride};
}

template <class V>
void convert_rows(const MatMulArgs& args, int64_t begin, int64_t end) {
  const int64_t k = args.layout->spec.k;
  for (int64_t row = begin; row < end; ++row) {
    const uint16_t* from = static_cast<const uint16_t*>(args.a) + row * args.lda;
    float* to = reinterpret_cast<float*>(args.shared_scratch) + row * k;
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) V::store(to + i, V::load_half(from + i));
    for (; i < k; ++i) to[i] = V::half_to_float(from[i]);
  }
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

template <class V>
void floats_tile(const MatMulArgs& args, const TileRange& tile, std::byte* scratch) {
  const int64_t k = args.layout->spec.k, rows = tile.row_end - tile.row_begin;
  const FloatRows a = float_rows<V>(args, tile.row_begin);
  const float* packed = reinterpret_cast<const float*>(args.packed);
  float* acc = reinterpret_cast<float*>(scratch);
  const int64_t panel_floats = k * kPanelColumns;
  for (int64_t panel = tile.panel_begin; panel < tile.panel_end;) {
    const int64_t left = tile.panel_end - panel;
    const int panels = left < panels_at_once<V>(rows) ? 1 : panels_at_once<V>(rows);
    // The next panel is fetched past the end of the tile too, as long as the tile that follows is the next panel's:
    // with two panels a tile that took M = 8 from 69 to 94 GFLOP/s.
    const bool has_next =
        (panel + panels) * kPanelColumns < args.layout->spec.n && (left > panels || tile.row_end == args.m);
    const float* next = rows > 3 && has_next ? packed + (panel + panels) * panel_floats : nullptr;
    __builtin_memset(acc, 0, panels * rows * kPanelColumns * sizeof(float));
    multiply_panels<V>(a.data, a.stride, rows, panels, packed + panel * panel_floats, panel_floats, k, acc, next);
    write_panels<V>(args, acc, tile.row_begin, tile.row_end, panel, panels);
    panel += panels;
  }
}

}  // namespace ompipe::kernels
