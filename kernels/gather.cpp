#include "ompipe/kernels/gather.h"

#include <algorithm>
#include <cstring>

#include "half.h"
#include "matmul_kernels.h"
#include "simd_kernels.h"

namespace ompipe::kernels {
namespace {

constexpr int64_t kBytesPerTile = 64 * 1024;
constexpr double kNsPerByte = 0.1;

// Tiles of whole slices of about kBytesPerTile.
int64_t slices_per_tile(int64_t slice_bytes) {
  return std::max<int64_t>(1, kBytesPerTile / std::max<int64_t>(1, slice_bytes));
}

TiledCall slice_call(const void* arguments, TiledCall::RunTile run, int64_t slices, int64_t slice_bytes) {
  const int64_t per_tile = slices_per_tile(slice_bytes);
  return one_phase(arguments, run, (slices + per_tile - 1) / per_tile, kNsPerByte * double(slices * slice_bytes));
}

// Calls body(slice) for the slices of a tile.
template <class Body>
void for_each_slice_of_tile(int64_t tile, int64_t slices, int64_t slice_bytes, Body body) {
  const int64_t per_tile = slices_per_tile(slice_bytes), begin = tile * per_tile;
  for (int64_t slice = begin; slice < std::min(begin + per_tile, slices); ++slice) body(slice);
}

int64_t wrapped_index(const GatherIndices& indices, int64_t i, int64_t axis_size) {
  const int64_t index = indices.at(i);
  return index < 0 ? index + axis_size : index;
}

void gather_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const GatherArguments*>(raw);
  const int64_t bytes = a.inner * int64_t(element_bytes(a.type));
  if (bytes == 0) return;
  for_each_slice_of_tile(tile, a.outer * a.indices.count, bytes, [&](int64_t slice) {
    const int64_t outer = slice / a.indices.count;
    const int64_t index = wrapped_index(a.indices, slice % a.indices.count, a.axis_size);
    std::memcpy(static_cast<std::byte*>(a.output) + slice * bytes,
                static_cast<const std::byte*>(a.data) + (outer * a.axis_size + index) * bytes, size_t(bytes));
  });
}

int64_t blocks_of(const GatherNibbles4Arguments& a) { return (a.columns + a.block - 1) / a.block; }

void gather_nibbles4_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const GatherNibbles4Arguments*>(raw);
  const int64_t blocks = blocks_of(a);
  for_each_slice_of_tile(tile, a.indices.count, a.columns * int64_t(sizeof(float)), [&](int64_t slice) {
    const int64_t index = wrapped_index(a.indices, slice, a.rows);
    Nibbles4Row row = a.table;
    row.nibbles += index * ((a.columns + 1) / 2);
    row.scales += index * blocks;
    if (row.zero_points != nullptr) row.zero_points += index * ((blocks + 1) / 2);
    dequantize_row(row, a.columns, a.block, a.output + slice * a.columns);
  });
}

int nibble(const uint8_t* bytes, int64_t i) { return (bytes[i / 2] >> (i % 2 * 4)) & 15; }

float scale_at(const std::byte* record, int64_t lane, const MatMulSpec& spec) {
  if (packed_scale_bytes(spec) == 2) {
    uint16_t half;
    std::memcpy(&half, record + lane * int64_t(sizeof(half)), sizeof(half));
    return half_to_float(half);
  }
  float scale;
  std::memcpy(&scale, record + lane * int64_t(sizeof(scale)), sizeof(scale));
  return scale;
}

// Column `column` of B: in each record its scale, its zero point, and four bytes of every vector, whose low nibbles are
// the first half of a unit of k and whose high ones the second.
void unpack_column(const GatherPackedArguments& a, int64_t column, float* output) {
  const MatMulSpec& spec = a.layout->spec;
  const GroupRecord record = group_record(spec);
  const int64_t lane = column % kGroupColumns;
  const int unit = unit_of(spec);
  const std::byte* at = a.packed + column / kGroupColumns * blocks_of(spec) * record.bytes;
  for (int64_t begin = 0; begin < a.columns; begin += spec.block, at += record.bytes) {
    const float scale = scale_at(at, lane, spec);
    const int zero_point = spec.zero_points != ZeroPoints::none ? int(at[record.zero_points_at + lane]) : 8;
    const auto put = [&](int64_t k, int q) {
      if (k < a.columns) output[k] = float(q - zero_point) * scale;
    };
    for (int unit_k = 0; unit_k < spec.block; unit_k += unit) {
      const std::byte* nibbles = at + record.quants_at + unit_k * 4 + lane * 4;
      for (int i = 0; i < unit / 2; ++i) {
        const int both = int(nibbles[i / 4 * 32 + i % 4]);
        put(begin + unit_k + i, both & 15);
        put(begin + unit_k + unit / 2 + i, both >> 4);
      }
    }
  }
}

void gather_packed_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const GatherPackedArguments*>(raw);
  for_each_slice_of_tile(tile, a.indices.count, a.columns * int64_t(sizeof(float)), [&](int64_t slice) {
    unpack_column(a, wrapped_index(a.indices, slice, a.layout->spec.n), a.output + slice * a.columns);
  });
}

}  // namespace

int64_t find_bad_index(const GatherIndices& indices, int64_t axis_size) {
  for (int64_t i = 0; i < indices.count; ++i) {
    const int64_t index = indices.at(i);
    if (index < -axis_size || index >= axis_size) return i;
  }
  return -1;
}

TiledCall gather_call(const GatherArguments& a) {
  return slice_call(&a, gather_tile, a.outer * a.indices.count, a.inner * int64_t(element_bytes(a.type)));
}

void dequantize_row(const Nibbles4Row& row, int64_t columns, int64_t block, float* output) {
  for (int64_t begin = 0, at = 0; begin < columns; begin += block, ++at) {
    const int zero_point = row.zero_points == nullptr ? 8 : nibble(row.zero_points, at);
    for (int64_t i = begin; i < std::min(begin + block, columns); ++i) {
      output[i] = float(nibble(row.nibbles, i) - zero_point) * row.scales[at];
    }
  }
}

TiledCall gather_nibbles4_call(const GatherNibbles4Arguments& a) {
  return slice_call(&a, gather_nibbles4_tile, a.indices.count, a.columns * int64_t(sizeof(float)));
}

TiledCall gather_packed_call(const GatherPackedArguments& a) {
  return slice_call(&a, gather_packed_tile, a.indices.count, a.columns * int64_t(sizeof(float)));
}

}  // namespace ompipe::kernels
