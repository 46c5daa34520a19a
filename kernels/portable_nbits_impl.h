// Products of few rows with 4-bit weights straight from the file's layout, at accuracy_level 4, for any vector type.
//
// Eight columns at a time, each dotted along k in spans of 64 elements; the sums over blocks are the packed kernel's
// chain.
#pragma once

#include "matmul_floats_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"

namespace ompipe::kernels {

template <class V, int unit>
void quantise_span_row(const MatMulArgs& args, const SpanRow& layout, int64_t row, std::byte* out) {
  const MatMulSpec& spec = args.layout->spec;
  const int factor = spec.zero_points == ZeroPoints::none ? default_zero_point(spec) : 1;
  std::byte* factors = out + layout.spans * kSpanK;
  __builtin_memset(out + (layout.spans - 1) * kSpanK, 0, kSpanK);
  for (int64_t u = 0; u < layout.units; ++u, factors += 8) {
    float copy[unit];
    int8_t q[unit];
    quantise_unit<V, unit>(unit_of_row<V>(args, row, u * unit, copy), factor, q, reinterpret_cast<float*>(factors),
                           reinterpret_cast<int32_t*>(factors + 4));
    auto* even = reinterpret_cast<int8_t*>(out) + u * unit / kSpanK * kSpanK + u * unit % kSpanK / 2;
    for (int i = 0; i < unit / 2; ++i) {
      even[i] = q[2 * i];
      even[i + kSpanK / 2] = q[2 * i + 1];
    }
  }
}

template <class V>
void quantise_spans(const MatMulArgs& args) {
  const SpanRow layout = span_row(args.layout->spec);
  for (int64_t row = 0; row < args.m; ++row) {
    std::byte* out = args.shared_scratch + row * layout.bytes;
    if (unit_of(args.layout->spec) == 16) {
      quantise_span_row<V, 16>(args, layout, row, out);
    } else {
      quantise_span_row<V, 32>(args, layout, row, out);
    }
  }
}

// Columns [column, column + count) of B, count at most 8, in chunks of 8 blocks.
template <class V, int unit, int rows>
class SpanDots {
 public:
  SpanDots(const PortableArgs& args, int64_t column, int count)
      : sources_(args.sources),
        q_(args.product.shared_scratch),
        layout_(span_row(args.product.layout->spec)),
        scales_are_halves_(args.product.layout->spec.scale_type == ScaleType::f16),
        packs_halves_(args.product.layout->spec.half_scales),
        has_zero_points_(args.product.layout->zero_points_bytes != 0),
        block_shift_(__builtin_ctz(static_cast<unsigned>(args.product.layout->spec.block))),
        blocks_(blocks_of(args.product.layout->spec)),
        column_bytes_(blocks_ << block_shift_ >> 1),
        column_(column),
        count_(count),
        b_(args.sources.range + column * column_bytes_) {}

  // out[r][0..8): the sums of row r.
  void multiply(float (*out)[kGroupColumns]) const {
    const int64_t chunk_spans = (int64_t{kChunk} << block_shift_) / kSpanK;
    const int64_t whole_spans = count_ == kGroupColumns ? column_bytes_ / kSpanBytes : 0;
    Chunk chunk;
    typename V::Floats sums[rows];
    for (int r = 0; r < rows; ++r) sums[r] = V::zero();
    for (int64_t block = 0, span = 0; block < blocks_; block += kChunk) {
      load_scales_of(block, chunk);
      if (has_zero_points_) load_zero_points_of(block, chunk);
      const int64_t first = span, end = first + chunk_spans < layout_.spans ? first + chunk_spans : layout_.spans;
      for (; span < end && span < whole_spans; ++span) {
        const std::byte* from = b_ + span * kSpanBytes;
        // Eight short strided streams defeat the hardware's prefetch; the next eight columns as a whole are contiguous.
        const std::byte* next = from + kGroupColumns * column_bytes_ + span * (kGroupColumns - 1) * kSpanBytes;
        for (int64_t at = 0; at < kGroupColumns * kSpanBytes; at += 64) V::prefetch(next + at);
        add_span(from, column_bytes_, span, span - first, kUnits, chunk, sums);
      }
      for (; span < end; ++span) {
        const int64_t left = column_bytes_ - span * kSpanBytes;
        std::byte part[kGroupColumns * kSpanBytes];
        copy_part(b_ + span * kSpanBytes, column_bytes_, left < kSpanBytes ? left : kSpanBytes, kSpanBytes, part);
        add_span(part, kSpanBytes, span, span - first, static_cast<int>(left * 2 / unit), chunk, sums);
      }
    }
    for (int r = 0; r < rows; ++r) V::store(out[r], sums[r]);
  }

 private:
  static constexpr int kChunk = 8, kSpanBytes = kSpanK / 2, kUnits = kSpanK / unit;
  struct Chunk {
    float scales[kChunk][kGroupColumns];
    uint8_t zero_points[kChunk][kGroupColumns];
  };

  int64_t blocks_left(int64_t block) const { return blocks_ - block < kChunk ? blocks_ - block : kChunk; }

  void load_scales_of(int64_t block, Chunk& chunk) const {
    const int64_t bytes = scales_are_halves_ ? 2 : 4;
    const std::byte* from = sources_.scales + (column_ * blocks_ + block) * bytes;
    std::byte part[kGroupColumns * kChunk * 4];
    int64_t stride = blocks_ * bytes;
    if (count_ < kGroupColumns || blocks_left(block) < kChunk) {
      copy_part(from, stride, blocks_left(block) * bytes, kChunk * bytes, part);
      from = part;
      stride = kChunk * bytes;
    }
    typename V::Floats columns[8];
    for (int j = 0; j < 8; ++j)
      columns[j] = scales_are_halves_ ? V::load_half(from + j * stride) : V::load(from + j * stride);
    V::transpose(columns);
    for (int i = 0; i < 8; ++i) {
      if (packs_halves_) columns[i] = rounded_to_halves(columns[i]);
      V::store(chunk.scales[i], columns[i]);
    }
  }

  // What a packed record would hold of scales that don't fit a half.
  static typename V::Floats rounded_to_halves(typename V::Floats scales) {
    uint16_t halves[kGroupColumns];
    V::store_half(halves, scales);
    return V::load_half(halves);
  }

  void load_zero_points_of(int64_t block, Chunk& chunk) const {
    const int64_t column_pairs = divide_up(blocks_, 2), pairs = divide_up(blocks_left(block), 2);
    const std::byte* from = sources_.zero_points + column_ * column_pairs + block / 2;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      uint64_t both = 0;
      for (int j = 0; j < count_; ++j) both |= uint64_t(from[j * column_pairs + pair]) << (8 * j);
      const uint64_t low = both & 0x0f0f0f0f0f0f0f0f, high = both >> 4 & 0x0f0f0f0f0f0f0f0f;
      __builtin_memcpy(chunk.zero_points[2 * pair], &low, 8);
      __builtin_memcpy(chunk.zero_points[2 * pair + 1], &high, 8);
    }
  }

  // `bytes` of each column that exists, the rest of eight rows of `width` bytes zero: nothing past the source is read.
  [[gnu::noinline]] void copy_part(const std::byte* from, int64_t stride, int64_t bytes, int64_t width,
                                   std::byte* part) const {
    __builtin_memset(part, 0, kGroupColumns * width);
    for (int j = 0; j < count_; ++j) __builtin_memcpy(part + j * width, from + j * stride, bytes);
  }

  // The first `units` units of a span, the `of_chunk`-th of its chunk.
  [[gnu::always_inline]] void add_span(const std::byte* from, int64_t stride, int64_t span, int64_t of_chunk, int units,
                                       const Chunk& chunk, typename V::Floats (&sums)[rows]) const {
    typename V::Ints dots[rows][kUnits];
    V::template dot_spans<unit, rows>(from, stride, reinterpret_cast<const int8_t*>(q_) + span * kSpanK, layout_.bytes,
                                      dots);
#pragma GCC unroll 4
    for (int u = 0; u < kUnits && u < units; ++u) {
      const int64_t block = (of_chunk * kSpanK + u * unit) >> block_shift_;
      const auto weight_scales = V::load(chunk.scales[block]);
#pragma GCC unroll 3
      for (int r = 0; r < rows; ++r) {
        const std::byte* row = q_ + r * layout_.bytes + layout_.spans * kSpanK + (span * kUnits + u) * 8;
        auto offset = V::int_broadcast(*reinterpret_cast<const int32_t*>(row + 4));
        if (has_zero_points_) offset = V::int_mul_small(V::load_bytes_as_ints(chunk.zero_points[block]), offset);
        const auto dot = V::to_floats(V::int_sub(dots[r][u], offset));
        sums[r] = V::fma(V::mul(dot, V::broadcast(*reinterpret_cast<const float*>(row))), weight_scales, sums[r]);
      }
    }
  }

  const PackSources sources_;
  const std::byte* const q_;
  const SpanRow layout_;
  const bool scales_are_halves_, packs_halves_, has_zero_points_;
  const int block_shift_;
  const int64_t blocks_, column_bytes_, column_;
  const int count_;
  const std::byte* const b_;
};

template <class V, int unit, int rows>
void nbits_direct_of(const PortableArgs& args, int64_t begin, int64_t end) {
  for (int64_t column = begin; column < end; column += kGroupColumns) {
    const int count = end - column < kGroupColumns ? static_cast<int>(end - column) : kGroupColumns;
    float sums[rows][kGroupColumns];
    SpanDots<V, unit, rows>(args, column, count).multiply(sums);
    write_out<V>(args.product, sums[0], kGroupColumns, 0, rows, column, count);
  }
}

template <class V, int unit>
void nbits_direct_rows(const PortableArgs& args, int64_t begin, int64_t end) {
  switch (args.product.m) {
    case 1:
      return nbits_direct_of<V, unit, 1>(args, begin, end);
    case 2:
      return nbits_direct_of<V, unit, 2>(args, begin, end);
    default:
      return nbits_direct_of<V, unit, 3>(args, begin, end);
  }
}

template <class V>
void nbits_direct_tile(const PortableArgs& args, int64_t begin, int64_t end) {
  if (unit_of(args.product.layout->spec) == 16) {
    nbits_direct_rows<V, 16>(args, begin, end);
  } else {
    nbits_direct_rows<V, 32>(args, begin, end);
  }
}

}  // namespace ompipe::kernels
