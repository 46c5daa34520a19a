// Packs ranges of 4-bit weights, with their scales and zero points, into records of 8 columns, for any vector type.
#pragma once

#include "matmul_kernels.h"

namespace ompipe::kernels {

template <class V, int unit>
class NbitsPacker {
 public:
  // `begin`: the position of the range's first blob among all blobs of B, [N, blocks].
  NbitsPacker(const PackedLayout& layout, const PackSources& sources, int64_t begin, std::byte* packed)
      : spec_(layout.spec),
        record_(group_record(spec_)),
        blocks_(blocks_of(spec_)),
        blob_bytes_(spec_.block / 2),
        scale_bytes_(spec_.scale_type == ScaleType::f16 ? 2 : 4),
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
        __builtin_memset(to + j * scale_bytes_, 0, scale_bytes_);
        if (spec_.zero_points != ZeroPoints::none) to[record_.zero_points_at + j] = {};
        for (int64_t at = record_.nibbles_at; at < record_.bytes; at += 32) __builtin_memset(to + at + 4 * j, 0, 4);
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
    __builtin_memcpy(to + column % kGroupColumns * scale_bytes_, scale, scale_bytes_ == 2 ? 2 : 4);
  }

  void put_zero_point(int64_t column, int64_t block, std::byte* to) const {
    const std::byte pair = sources_.zero_points[column * divide_up(blocks_, 2) + block / 2];
    to[record_.zero_points_at + column % kGroupColumns] = pair >> (block % 2 * 4) & std::byte{15};
  }

  // Nibbles of one column and block, from source order (k, k + 1 in a byte) to packed order (k, k + unit / 2).
  void put_nibbles(const std::byte* from, int64_t j, std::byte* to) const {
    const auto nibble = [&](int k) { return from[k / 2] >> (k % 2 * 4) & std::byte{15}; };
    for (int unit_k = 0; unit_k < spec_.block; unit_k += unit) {
      for (int k = 0; k < unit / 2; ++k) {
        to[unit_k * 4 + k / 4 * 32 + j * 4 + k % 4] = nibble(unit_k + k) | nibble(unit_k + unit / 2 + k) << 4;
      }
    }
  }

  // Columns [column, column_end) of one group, blocks [block, block_end) of each.
  void pack_column_parts(int64_t column, int64_t column_end, int64_t block, int64_t block_end) {
    for (; block < block_end; ++block) {
      for (int64_t n = column; n < column_end; ++n) {
        std::byte* to = record(n, block);
        put_scale(n, block, to);
        if (spec_.zero_points != ZeroPoints::none) put_zero_point(n, block, to);
        put_nibbles(blob(n, block), n % kGroupColumns, to + record_.nibbles_at);
      }
    }
  }

  // Eight whole columns.
  void pack_group(int64_t column) {
    const int64_t column_bytes = blocks_ * blob_bytes_;
    put_group_scales(column);
    for (int64_t block = 0; block < blocks_; ++block) {
      std::byte* to = record(column, block);
      for (int64_t j = 0; spec_.zero_points != ZeroPoints::none && j < kGroupColumns; ++j)
        put_zero_point(column + j, block, to);
      const std::byte* from = blob(column, block);
      // Eight short strided streams defeat the hardware's prefetch; the next group as a whole is contiguous.
      const std::byte* next = from + block * 7 * blob_bytes_ + kGroupColumns * column_bytes;
      for (int64_t at = 0; at < kGroupColumns * blob_bytes_; at += 64) V::prefetch(next + at);
      for (int64_t at = 0; at < blob_bytes_; at += unit / 2) {
        V::template interleave_unit<unit>(from + at, column_bytes, to + record_.nibbles_at + 8 * at);
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
      for (int64_t i = 0; i < 8; ++i) V::store(reinterpret_cast<float*>(record(column, block + i)), rows[i]);
    }
    for (; block < blocks_; ++block) {
      for (int64_t j = 0; j < kGroupColumns; ++j) put_scale(column + j, block, record(column, block));
    }
  }

  const MatMulSpec& spec_;
  const GroupRecord record_;
  const int64_t blocks_;
  const int64_t blob_bytes_, scale_bytes_;
  const PackSources sources_;
  const int64_t begin_;
  std::byte* const packed_;
};

template <class V, int unit>
void pack_nbits_of(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end,
                   std::byte* packed) {
  const int64_t blob_bytes = layout.spec.block / 2;
  NbitsPacker<V, unit> packer(layout, sources, begin / blob_bytes, packed);
  packer.pack(end / blob_bytes);
  if (end == layout.source_bytes) packer.zero_padding();
}

template <class V>
void pack_nbits(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end, std::byte* packed) {
  if (unit_of(layout.spec) == 16) {
    pack_nbits_of<V, 16>(layout, sources, begin, end, packed);
  } else {
    pack_nbits_of<V, 32>(layout, sources, begin, end, packed);
  }
}

}  // namespace ompipe::kernels
