// Packs ranges of weights of 2, 4 or 8 bits, with their scales and zero points, into records of 8 columns, for any
// vector type.
#pragma once

#include "half.h"
#include "matmul_kernels.h"

namespace ompipe::kernels {

template <class V, int bits, int unit>
class NbitsPacker {
 public:
  // `begin`: the position of the range's first blob among all blobs of B, [N, blocks].
  NbitsPacker(const PackedLayout& layout, const PackSources& sources, int64_t begin, std::byte* packed)
      : spec_(layout.spec),
        record_(group_record(spec_)),
        blocks_(blocks_of(spec_)),
        blob_bytes_(blob_bytes(spec_)),
        scale_bytes_(spec_.scale_type == ScaleType::f16 ? 2 : 4),
        zero_point_bytes_(packed_zero_point_bytes(spec_)),
        zero_point_row_bytes_(zero_point_row_bytes(spec_)),
        sources_(sources),
        begin_(begin),
        packed_(packed) {}

  // A part of a column, whole columns, a part of a column.
  void pack(int64_t end) {
    int64_t column = begin_ / blocks_;
    const int64_t last_column = end / blocks_;
    if (column == last_column) return pack_column_parts(column, column + 1, begin_ % blocks_, end % blocks_);
    if (begin_ % blocks_ != 0) {
      pack_column_parts(column, column + 1, begin_ % blocks_, blocks_);
      ++column;
    }
    while (column < last_column) {
      const int64_t group_end = (column / kGroupColumns + 1) * kGroupColumns;
      const int64_t part_end = group_end < last_column ? group_end : last_column;
      if (part_end - column == kGroupColumns) {
        pack_group(column);
      } else {
        pack_column_parts(column, part_end, 0, blocks_);
      }
      column = part_end;
    }
    if (end % blocks_ != 0) pack_column_parts(column, column + 1, 0, end % blocks_);
  }

  void zero_padding() {
    for (int64_t n = spec_.n; n % kGroupColumns != 0; ++n) {
      const int64_t j = n % kGroupColumns;
      for (int64_t block = 0; block < blocks_; ++block) {
        std::byte* to = record(n, block);
        const int64_t scale = packed_scale_bytes(spec_);
        __builtin_memset(to + j * scale, 0, size_t(scale));
        __builtin_memset(to + record_.zero_points_at + j * zero_point_bytes_, 0, size_t(zero_point_bytes_));
        for (int64_t at = record_.quants_at; at < record_.bytes; at += 32) __builtin_memset(to + at + 4 * j, 0, 4);
      }
    }
  }

 private:
  std::byte* record(int64_t column, int64_t block) const {
    return packed_ + (column / kGroupColumns * blocks_ + block) * record_.bytes;
  }
  const std::byte* blob(int64_t column, int64_t block) const {
    return sources_.range + (column * blocks_ + block - begin_) * blob_bytes_;
  }

  void put_scale(int64_t column, int64_t block, std::byte* to) const {
    const std::byte* scale = sources_.scales + (column * blocks_ + block) * scale_bytes_;
    if (spec_.half_scales) {
      float value;
      __builtin_memcpy(&value, scale, sizeof value);
      const uint16_t half = float_to_half(value);
      __builtin_memcpy(to + column % kGroupColumns * 2, &half, 2);
    } else {
      __builtin_memcpy(to + column % kGroupColumns * scale_bytes_, scale, scale_bytes_ == 2 ? 2 : 4);
    }
  }

  void put_zero_point(int64_t column, int64_t block, std::byte* to) const {
    if (zero_point_bytes_ == 0) return;
    const std::byte* row = sources_.zero_points + column * zero_point_row_bytes_;
    std::byte* place = to + record_.zero_points_at + column % kGroupColumns * zero_point_bytes_;
    if (zero_point_bytes_ == 1) {
      *place = element(row, block);
    } else {
      __builtin_memcpy(place, row + block * zero_point_bytes_, zero_point_bytes_ == 2 ? 2 : 4);
    }
  }

  static std::byte element(const std::byte* from, int64_t i) {
    return from[i * bits / 8] >> (i * bits % 8) & std::byte{(1 << bits) - 1};
  }

  // Elements of one column and block, from source order (k, k + 1, ... in a byte) to packed order.
  void put_quants(const std::byte* from, int64_t j, std::byte* to) const {
    constexpr int span = unit * bits / 8;
    for (int unit_k = 0; unit_k < spec_.block; unit_k += unit) {
      for (int k = 0; k < span; ++k) {
        std::byte packed{};
        for (int part = 0; part < 8 / bits; ++part) {
          packed |= element(from, unit_k + part * span + k) << (part * bits);
        }
        to[unit_k * bits + k / 4 * 32 + j * 4 + k % 4] = packed;
      }
    }
  }

  static void interleave(const std::byte* columns, int64_t stride, std::byte* to) {
    if constexpr (bits == 2) V::template interleave_pairs<unit>(columns, stride, to);
    if constexpr (bits == 4) V::template interleave_unit<unit>(columns, stride, to);
    if constexpr (bits == 8) V::template interleave_bytes<unit>(columns, stride, to);
  }

  // Columns [column, column_end) of one group, blocks [block, block_end) of each.
  void pack_column_parts(int64_t column, int64_t column_end, int64_t block, int64_t block_end) {
    for (; block < block_end; ++block) {
      for (int64_t n = column; n < column_end; ++n) {
        std::byte* to = record(n, block);
        put_scale(n, block, to);
        put_zero_point(n, block, to);
        put_quants(blob(n, block), n % kGroupColumns, to + record_.quants_at);
      }
    }
  }

  // Eight whole columns.
  void pack_group(int64_t column) {
    const int64_t column_bytes = blocks_ * blob_bytes_;
    put_group_scales(column);
    for (int64_t block = 0; block < blocks_; ++block) {
      std::byte* to = record(column, block);
      for (int64_t j = 0; zero_point_bytes_ != 0 && j < kGroupColumns; ++j) put_zero_point(column + j, block, to);
      const std::byte* from = blob(column, block);
      // Eight short strided streams defeat the hardware's prefetch; the next group as a whole is contiguous.
      const std::byte* next = from + block * 7 * blob_bytes_ + kGroupColumns * column_bytes;
      for (int64_t at = 0; at < kGroupColumns * blob_bytes_; at += 64) V::prefetch(next + at);
      for (int64_t at = 0; at < blob_bytes_; at += unit * bits / 8) {
        interleave(from + at, column_bytes, to + record_.quants_at + 8 * at);
      }
    }
  }

  // The scales of eight columns: eight blocks at a time through registers, as they are a matrix to be transposed.
  void put_group_scales(int64_t column) {
    int64_t block = 0;
    for (; scale_bytes_ == 4 && block + 8 <= blocks_; block += 8) {
      typename V::Floats rows[8];
      for (int64_t j = 0; j < 8; ++j) rows[j] = V::load(sources_.scales + ((column + j) * blocks_ + block) * 4);
      V::transpose(rows);
      for (int64_t i = 0; i < 8; ++i) {
        std::byte* to = record(column, block + i);
        if (spec_.half_scales) {
          V::store_half(to, rows[i]);
        } else {
          V::store(reinterpret_cast<float*>(to), rows[i]);
        }
      }
    }
    for (; block < blocks_; ++block) {
      for (int64_t j = 0; j < kGroupColumns; ++j) put_scale(column + j, block, record(column, block));
    }
  }

  const MatMulSpec& spec_;
  const GroupRecord record_;
  const int64_t blocks_;
  const int64_t blob_bytes_, scale_bytes_;  // in the file
  const int64_t zero_point_bytes_, zero_point_row_bytes_;
  const PackSources sources_;
  const int64_t begin_;
  std::byte* const packed_;
};

template <class V, int bits, int unit>
void pack_nbits_of(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end,
                   std::byte* packed) {
  const int64_t blob = blob_bytes(layout.spec);
  NbitsPacker<V, bits, unit> packer(layout, sources, begin / blob, packed);
  packer.pack(end / blob);
  if (end == layout.source_bytes) packer.zero_padding();
}

template <class V, int bits>
void pack_nbits_of(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end,
                   std::byte* packed) {
  if (unit_of(layout.spec) == 16) {
    pack_nbits_of<V, bits, 16>(layout, sources, begin, end, packed);
  } else {
    pack_nbits_of<V, bits, 32>(layout, sources, begin, end, packed);
  }
}

template <class V>
void pack_nbits(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end, std::byte* packed) {
  switch (layout.spec.bits) {
    case 2:
      return pack_nbits_of<V, 2>(layout, sources, begin, end, packed);
    case 4:
      return pack_nbits_of<V, 4>(layout, sources, begin, end, packed);
    default:
      return pack_nbits_of<V, 8>(layout, sources, begin, end, packed);
  }
}

}  // namespace ompipe::kernels
