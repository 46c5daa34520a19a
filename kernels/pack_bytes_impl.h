// Packing of int8 weights, for any vector type of eight lanes: groups of 8 columns, four k of a column side by side.
#pragma once

#include "matmul_integer_kernels.h"

namespace ompipe::kernels {

template <class V>
void pack_bytes(const PackedLayout& layout, const PackSources& sources, int64_t begin, int64_t end, std::byte* packed) {
  const MatMulSpec& spec = layout.spec;
  const int64_t n = spec.n, group_bytes = byte_units(spec) * kByteUnitBytes;
  const std::byte flip{spec.format == WeightFormat::s8 ? uint8_t{128} : uint8_t{0}};
  const auto place = [&](int64_t k, int64_t column) {
    return packed + column / kGroupColumns * group_bytes + k / 4 * 32 + column % kGroupColumns * 4 + k % 4;
  };
  for (int64_t at = begin; at < end;) {
    const int64_t k = at / n;
    if (at % n == 0 && k % 4 == 0 && end - at >= 4 * n) {
      const std::byte* rows = sources.range + (at - begin);
      int64_t column = 0;
      for (; column + kGroupColumns <= n; column += kGroupColumns) {
        V::interleave_rows(rows + column, n, flip, place(k, column));
      }
      for (; column < n; ++column) {
        for (int64_t i = 0; i < 4; ++i) *place(k + i, column) = rows[i * n + column] ^ flip;
      }
      at += 4 * n;
    } else {
      *place(k, at % n) = sources.range[at - begin] ^ flip;
      ++at;
    }
  }
  if (end != layout.source_bytes) return;
  for (int64_t column = 0; column < divide_up(n, kGroupColumns) * kGroupColumns; ++column) {
    for (int64_t k = column < n ? spec.k : 0; k < byte_units(spec) * kByteUnit; ++k) *place(k, column) = std::byte{0};
  }
}

}  // namespace ompipe::kernels
