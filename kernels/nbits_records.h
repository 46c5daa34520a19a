// Reading the packed records of nbits weights, for any vector type.
//
// A register holds what is one group's, or two groups' side by side. Then `other` is the distance from the one's bytes
// to the other's.
#pragma once

#include "matmul_kernels.h"

namespace ompipe::kernels {

template <class V>
inline constexpr int kGroupsPerRegister = V::kLanes / kGroupColumns;

template <class V>
typename V::Floats load_column_floats(const std::byte* at, int64_t other, bool half) {
  if constexpr (kGroupsPerRegister<V> == 2) {
    return half ? V::load_half(at, at + other) : V::load(at, at + other);
  } else {
    return half ? V::load_half(at) : V::load(at);
  }
}

template <class V>
typename V::Ints load_column_bytes(const std::byte* at, int64_t other) {
  if constexpr (kGroupsPerRegister<V> == 2) {
    return V::load_bytes_as_ints(at, at + other);
  } else {
    return V::load_bytes_as_ints(at);
  }
}

template <class V>
typename V::Bytes load_quants(const std::byte* at, int64_t other) {
  if constexpr (kGroupsPerRegister<V> == 2) {
    return V::load_bytes(at, at + other);
  } else {
    return V::load_bytes(at);
  }
}

// The scales of the record at `record`, and its zero points as floats.
template <class V>
typename V::Floats load_scales(const std::byte* record, int64_t other, const MatMulSpec& spec) {
  return load_column_floats<V>(record, other, packed_scale_bytes(spec) == 2);
}
template <class V>
typename V::Floats load_zero_points(const std::byte* zero_points, int64_t other, const MatMulSpec& spec) {
  if (has_fractions(spec.zero_points)) {
    return load_column_floats<V>(zero_points, other, spec.zero_points == ZeroPoints::f16);
  }
  if (spec.zero_points == ZeroPoints::packed) return V::to_floats(load_column_bytes<V>(zero_points, other));
  return V::broadcast(static_cast<float>(default_zero_point(spec)));
}

// How many elements of a column stand in a byte of a vector.
template <int bits>
inline constexpr int kParts = 8 / bits;

// Those that stand in the same place, one a byte. Of parts that follow each other elements lie unit * bits / 8 apart.
template <class V, int bits, int part>
typename V::Bytes part_of(typename V::Bytes x) {
  if constexpr (bits == 8) return x;
  if constexpr (bits == 4) return part == 0 ? V::low_nibbles(x) : V::high_nibbles(x);
  if constexpr (bits == 2) return V::template bit_pairs<part>(x);
}

// How many registers' groups a micro-kernel takes at once: a lone row wants four memory streams that share its
// broadcasts.
template <class V>
constexpr int registers_at_once(int64_t rows) {
  const int groups = V::kStreams >= 4 && rows == 1 ? 4 : V::kStreams >= 2 && rows == 2 ? 2 : 1;
  return groups < kGroupsPerRegister<V> ? 1 : groups / kGroupsPerRegister<V>;
}

// Calls run(group, count, distance) for all groups of a tile: `count` registers' groups, `distance` groups apart.
// `most` of them at once are parts of the tile that each lie in one piece, so that every memory stream goes on from
// call to call: with K = 896, whose groups are 4480 bytes, a lone row of 4 bits took 30% less time.
template <class V, class Run>
void for_streams(const TileRange& tile, int most, Run run) {
  constexpr int64_t step = kGroupsPerRegister<V>;
  const int64_t length = (tile.panel_end - tile.panel_begin) / (step * most) * step;
  int64_t group = tile.panel_begin;
  if (most > 1) {
    for (; group < tile.panel_begin + length; group += step) run(group, most, length);
    group = tile.panel_begin + most * length;
  }
  for (; group < tile.panel_end; group += step) run(group, 1, step);
}

// Calls run.operator()<bits>() for the spec's.
template <class Run>
void with_bits(const MatMulSpec& spec, Run run) {
  if (spec.bits == 2) return run.template operator()<2>();
  if (spec.bits == 4) return run.template operator()<4>();
  run.template operator()<8>();
}

// Calls run.operator()<bits, unit>() for the spec's.
template <class Run>
void with_format(const MatMulSpec& spec, Run run) {
  const bool small = unit_of(spec) == 16;
  if (spec.bits == 2) return small ? run.template operator()<2, 16>() : run.template operator()<2, 32>();
  if (spec.bits == 4) return small ? run.template operator()<4, 16>() : run.template operator()<4, 32>();
  return small ? run.template operator()<8, 16>() : run.template operator()<8, 32>();
}

}  // namespace ompipe::kernels
