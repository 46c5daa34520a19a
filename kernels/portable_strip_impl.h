// Strips of float weights: packed into scratch from the file's layout, for any vector type of eight lanes, and
// multiplied by the packed micro-kernel, for any vector type.
#pragma once

#include "matmul_floats_impl.h"
#include "matmul_kernels.h"
#include "pack_floats_impl.h"

namespace ompipe::kernels {

// Packs one strip of B as in the file into panel order, with ordinary stores: the strip is to stay in the cache. If
// `packed` isn't null its lines also go to their final place, past the caches, a few at a time: reading and writing
// memory overlap. Columns that pad the last panel become zero.
template <class V, WeightFormat format>
class StripPacker {
 public:
  StripPacker(const MatMulSpec& spec, const std::byte* b, const FloatStrip& strip, float* to, float* packed)
      : strip_(strip),
        panel_floats_(spec.k * kPanelColumns),
        k_stride_((spec.trans_b ? 1 : spec.n) * kElementBytes<format>),
        n_stride_((spec.trans_b ? spec.k : 1) * kElementBytes<format>),
        columns_(spec.n - strip.panel * kPanelColumns),
        b_(b + strip.k * k_stride_ + strip.panel * kPanelColumns * n_stride_),
        to_(to),
        packed_(packed == nullptr ? nullptr : packed + strip.panel * panel_floats_ + strip.k * kPanelColumns) {}

  // B [K, N]: a few rows over all panels, so that a page is visited once.
  void pack_rows() const {
    constexpr int64_t kRows = 8;
    for (int64_t k = 0; k < strip_.count; k += kRows) {
      const int64_t end = k + kRows < strip_.count ? k + kRows : strip_.count;
      for (int64_t p = 0; p < strip_.panels; ++p) {
        for (int64_t i = k; i < end; ++i) pack_line(i, p, kRows);
        stream_lines(p, k, end);
      }
    }
  }

  // B [N, K]: whole cache lines of eight columns; more lines at once would collide in L1 where K is a power of two.
  void pack_columns() const {
    constexpr int64_t kLine = 64 / kElementBytes<format>;
    for (int64_t p = 0; p < strip_.panels; ++p) {
      for (int64_t k = 0; k < strip_.count; k += kLine) {
        const int64_t end = k + kLine < strip_.count ? k + kLine : strip_.count, whole = k + (end - k) / 8 * 8;
        for (int half = 0; half < kPanelColumns; half += 8) {
          for (int64_t i = k; i < whole; i += 8) transpose(i, p, half);
        }
        for (int64_t i = whole; i < end; ++i) gather_line(i, p);
        stream_lines(p, k, end);
      }
    }
  }

 private:
  const std::byte* source(int64_t k, int64_t n) const { return b_ + k * k_stride_ + n * n_stride_; }
  float* line(int64_t k, int64_t panel) const { return to_ + panel * strip_.panel_stride + k * kPanelColumns; }
  int64_t columns_left(int64_t panel) const { return columns_ - panel * kPanelColumns; }

  // Also fetches the line `ahead` rows on, which no hardware would: it lies in another page.
  void pack_line(int64_t k, int64_t panel, int64_t ahead) const {
    const std::byte* from = source(k, panel * kPanelColumns);
    V::prefetch(from + ahead * k_stride_);
    if (columns_left(panel) < kPanelColumns) return gather_line(k, panel);
    V::store(line(k, panel), load_elements<V, format>(from));
    V::store(line(k, panel) + 8, load_elements<V, format>(from + 8 * kElementBytes<format>));
  }

  void gather_line(int64_t k, int64_t panel) const {
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      const std::byte* from = source(k, panel * kPanelColumns + j);
      line(k, panel)[j] = j < columns_left(panel) ? load_element<V, format>(from) : 0.0f;
    }
  }

  void transpose(int64_t k, int64_t panel, int half) const {
    typename V::Floats block[8];
    for (int j = 0; j < 8; ++j) {
      const std::byte* from = source(k, panel * kPanelColumns + half + j);
      block[j] = half + j < columns_left(panel) ? load_elements<V, format>(from) : V::zero();
    }
    V::transpose(block);
    for (int j = 0; j < 8; ++j) V::store(line(k + j, panel) + half, block[j]);
  }

  void stream_lines(int64_t panel, int64_t k, int64_t end) const {
    if (packed_ == nullptr) return;
    float* to = packed_ + panel * panel_floats_ + k * kPanelColumns;
    const float* from = line(k, panel);
    for (int64_t i = 0; i < (end - k) * kPanelColumns; i += 8) V::stream(to + i, V::load(from + i));
  }

  const FloatStrip& strip_;
  const int64_t panel_floats_, k_stride_, n_stride_;
  const int64_t columns_;  // from the strip's first on
  const std::byte* const b_;
  float* const to_;
  float* const packed_;
};

template <class V, WeightFormat format>
void pack_strip_of(const MatMulSpec& spec, const std::byte* b, const FloatStrip& strip, float* to, float* packed) {
  const StripPacker<V, format> packer(spec, b, strip, to, packed);
  if (spec.trans_b) {
    packer.pack_columns();
  } else {
    packer.pack_rows();
  }
  if (packed != nullptr) V::finish_streams();
}

template <class V>
void pack_strip(const MatMulSpec& spec, const std::byte* b, const FloatStrip& strip, float* to, float* packed) {
  switch (spec.format) {
    case WeightFormat::f16:
      return pack_strip_of<V, WeightFormat::f16>(spec, b, strip, to, packed);
    case WeightFormat::bf16:
      return pack_strip_of<V, WeightFormat::bf16>(spec, b, strip, to, packed);
    default:
      return pack_strip_of<V, WeightFormat::f32>(spec, b, strip, to, packed);
  }
}

// Panel by panel, so that a panel's part of the strip stays in L1 while the rows pass.
template <class V>
void multiply_strip(const MatMulArgs& args, const FloatStrip& strip, const float* b, int64_t begin, int64_t end,
                    float* sums) {
  const int64_t rows = end - begin;
  const FloatRows a = float_rows<V>(args, begin);
  for (int64_t p = 0; p < strip.panels;) {
    const int at_once = strip.panels - p < panels_at_once<V>(rows) ? 1 : panels_at_once<V>(rows);
    float* const at = sums + p * rows * kPanelColumns;
    multiply_panels<V>(a, rows, strip.k, strip.count, at_once, b + p * strip.panel_stride, strip.panel_stride,
                       {at, rows * kPanelColumns, at, kPanelColumns, rows * kPanelColumns}, nullptr);
    p += at_once;
  }
}

template <class V>
void write_strip(const MatMulArgs& args, const FloatStrip& strip, const float* sums, int64_t begin, int64_t end) {
  write_panels<V>(args, sums, begin, end, strip.panel, static_cast<int>(strip.panels));
}

}  // namespace ompipe::kernels
