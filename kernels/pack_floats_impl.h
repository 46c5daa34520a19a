// Packs ranges of float weights into panels of 16 columns, for any vector type.
#pragma once

#include "matmul_kernels.h"

namespace ompipe::kernels {

template <WeightFormat format>
inline constexpr int64_t kElementBytes = format == WeightFormat::f32 ? 4 : 2;

// Eight elements, promoted. Any alignment.
template <class V, WeightFormat format>
typename V::Floats load_elements(const std::byte* p) {
  if constexpr (format == WeightFormat::f16) return V::load_half(p);
  if constexpr (format == WeightFormat::bf16) return V::load_bfloat(p);
  return V::load(p);
}

template <class V, WeightFormat format>
float load_element(const std::byte* p) {
  if constexpr (format == WeightFormat::f32) {
    float value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
  } else {
    uint16_t half;
    __builtin_memcpy(&half, p, sizeof half);
    if constexpr (format == WeightFormat::f16) return V::half_to_float(half);
    const uint32_t bits = uint32_t(half) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
}

// Packs ranges of one operand. Element positions are in elements of B as it lies in the file.
template <class V, WeightFormat format>
class FloatPacker {
 public:
  FloatPacker(const PackedLayout& layout, const std::byte* range, int64_t begin, float* packed)
      : k_(layout.spec.k), n_(layout.spec.n), range_(range), begin_(begin), packed_(packed) {}

  // B [K, N]: a part of a row, whole rows, a part of a row.
  void pack_rows(int64_t end) {
    int64_t row = begin_ / n_;
    const int64_t last_row = end / n_;
    if (row == last_row) return pack_row_part(row, begin_ % n_, end % n_);
    if (begin_ % n_ != 0) pack_row_part(row++, begin_ % n_, n_);
    // Eight rows a panel: whole cache lines leave the core back to back (11 GB/s against 2.5 with one panel after the
    // other).
    for (; row + 8 <= last_row; row += 8) pack_whole_rows(row, 8);
    for (; row < last_row; ++row) pack_whole_rows(row, 1);
    if (end % n_ != 0) pack_row_part(row, 0, end % n_);
  }

  // B [N, K]: a part of a column, whole columns, a part of a column.
  void pack_columns(int64_t end) {
    int64_t column = begin_ / k_;
    const int64_t last_column = end / k_;
    if (column == last_column) return pack_column_parts(column, column + 1, begin_ % k_, end % k_);
    if (begin_ % k_ != 0) {
      pack_column_parts(column, column + 1, begin_ % k_, k_);
      ++column;
    }
    while (column < last_column) {
      const int64_t panel_end = (column / kPanelColumns + 1) * kPanelColumns;
      const int64_t part_end = panel_end < last_column ? panel_end : last_column;
      if (part_end - column == kPanelColumns) {
        transpose_panel(column);
      } else {
        pack_column_parts(column, part_end, 0, k_);
      }
      column = part_end;
    }
    if (end % k_ != 0) pack_column_parts(column, column + 1, 0, end % k_);
  }

  void zero_padding() {
    for (int64_t n = n_; n % kPanelColumns != 0; ++n) {
      for (int64_t k = 0; k < k_; ++k) *place(k, n) = 0;
    }
  }

 private:
  float* place(int64_t k, int64_t n) const {
    return packed_ + (n / kPanelColumns * k_ + k) * kPanelColumns + n % kPanelColumns;
  }
  const std::byte* source(int64_t element) const { return range_ + (element - begin_) * kElementBytes<format>; }

  void copy_line(int64_t row, int64_t column) {
    const std::byte* from = source(row * n_ + column);
    float* to = place(row, column);
    V::stream(to, load_elements<V, format>(from));
    V::stream(to + 8, load_elements<V, format>(from + 8 * kElementBytes<format>));
  }

  void pack_row_part(int64_t row, int64_t column, int64_t column_end) {
    while (column < column_end) {
      if (column % kPanelColumns == 0 && column + kPanelColumns <= column_end) {
        copy_line(row, column);
        column += kPanelColumns;
      } else {
        *place(row, column) = load_element<V, format>(source(row * n_ + column));
        ++column;
      }
    }
  }

  void pack_whole_rows(int64_t row, int rows) {
    int64_t column = 0;
    for (; column + kPanelColumns <= n_; column += kPanelColumns) {
      for (int r = 0; r < rows; ++r) copy_line(row + r, column);
    }
    for (int r = 0; r < rows; ++r) pack_row_part(row + r, column, n_);
  }

  // Columns [column, column_end) of one panel, elements [k, k_end) of each; 16 k at a time, so that the lines written
  // stay in L1.
  void pack_column_parts(int64_t column, int64_t column_end, int64_t k, int64_t k_end) {
    for (; k < k_end; k += 16) {
      const int64_t stop = k + 16 < k_end ? k + 16 : k_end;
      for (int64_t n = column; n < column_end; ++n) {
        const std::byte* from = source(n * k_ + k);
        float* to = place(k, n);
        for (int64_t i = k; i < stop; ++i, from += kElementBytes<format>, to += kPanelColumns) {
          *to = load_element<V, format>(from);
        }
      }
    }
  }

  void transpose_panel(int64_t column) {
    int64_t k = 0;
    for (; k + 8 <= k_; k += 8) {
      typename V::Floats left[8], right[8];
      for (int i = 0; i < 8; ++i) {
        left[i] = load_elements<V, format>(source((column + i) * k_ + k));
        right[i] = load_elements<V, format>(source((column + 8 + i) * k_ + k));
      }
      V::transpose(left);
      V::transpose(right);
      float* to = place(k, column);
      for (int i = 0; i < 8; ++i, to += kPanelColumns) {
        V::stream(to, left[i]);
        V::stream(to + 8, right[i]);
      }
    }
    pack_column_parts(column, column + kPanelColumns, k, k_);
  }

  const int64_t k_, n_;
  const std::byte* const range_;
  const int64_t begin_;
  float* const packed_;
};

template <class V, WeightFormat format>
void pack_floats_of(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end, float* packed) {
  const int64_t element_end = end / kElementBytes<format>;
  FloatPacker<V, format> packer(layout, sources.range, begin / kElementBytes<format>, packed);
  if (layout.spec.trans_b) {
    packer.pack_columns(element_end);
  } else {
    packer.pack_rows(element_end);
  }
  if (end == layout.source_bytes) packer.zero_padding();
  V::finish_streams();
}

template <class V>
void pack_floats(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end, float* packed) {
  switch (layout.spec.format) {
    case WeightFormat::f16:
      return pack_floats_of<V, WeightFormat::f16>(layout, sources, begin, end, packed);
    case WeightFormat::bf16:
      return pack_floats_of<V, WeightFormat::bf16>(layout, sources, begin, end, packed);
    default:
      return pack_floats_of<V, WeightFormat::f32>(layout, sources, begin, end, packed);
  }
}

}  // namespace ompipe::kernels
