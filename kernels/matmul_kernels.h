// What matmul.cpp dispatches to: one table of functions for each ISA, all compiled from the same templates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/kernels/matmul.h"

namespace ompipe::kernels {

inline constexpr int kPanelColumns = 16;  // of float weights, and of a dequantised strip
inline constexpr int kGroupColumns = 8;   // of nbits weights
inline constexpr int kRowsPerTile =
    6;                               // of the micro-kernels at most: 6 x 16 floats are 12 accumulators of 16 registers
inline constexpr int kStripK = 128;  // k at a time of dequantised strips: 8 KiB a panel, so that four fit in L1
inline constexpr int kMaxBlockRows = 96;  // of A that one tile passes over

// Bytes of one record (a group of 8 columns, one block of k) and of its parts.
struct GroupRecord {
  int64_t zero_points_at, quants_at, bytes;
};
GroupRecord group_record(const MatMulSpec& spec);

// Of one scale and one zero point in a record (0: there are none), and of one column's zero points in the file.
int64_t packed_scale_bytes(const MatMulSpec& spec);
int64_t packed_zero_point_bytes(const MatMulSpec& spec);
int64_t zero_point_row_bytes(const MatMulSpec& spec);

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t blocks_of(const MatMulSpec& spec) { return divide_up(spec.k, spec.block); }
inline int unit_of(const MatMulSpec& spec) { return spec.block < 32 ? spec.block : 32; }
inline int64_t blob_bytes(const MatMulSpec& spec) { return int64_t{spec.block} * spec.bits / 8; }
inline int default_zero_point(const MatMulSpec& spec) { return 1 << (spec.bits - 1); }
inline bool has_fractions(ZeroPoints kind) { return kind == ZeroPoints::f32 || kind == ZeroPoints::f16; }

// Rows and columns of the output that one tile computes. `rows` of the last block may be fewer.
struct Tiling {
  int64_t rows = 0, row_blocks = 0;
  int64_t panels = 0, column_tiles = 0;  // panels of 16 columns, or groups of 8
};

// A tile: rows [row_begin, row_end) and panels or groups [panel_begin, panel_end).
struct TileRange {
  int64_t row_begin, row_end, panel_begin, panel_end;
};

// Rows of the next micro-kernel call: `rows` cut into as few parts of at most 6 as can be, as even as can be (32 = 6 6
// 5 5 5 5).
inline int next_rows(int64_t rows) {
  const int64_t parts = divide_up(rows, kRowsPerTile);
  return static_cast<int>(divide_up(rows, parts));
}

// Bytes of one row of A quantised for accuracy_level 4, in units of unit_of(spec): int8 each, one float scale, one
// int32 sum.
inline int64_t quantised_row_bytes(const MatMulSpec& spec) {
  return blocks_of(spec) * (spec.block / unit_of(spec)) * (unit_of(spec) + 8);
}

struct MatMulKernels {
  void (*pack_floats)(const PackedLayout&, const PackSources&, int64_t begin, int64_t end, float* packed);
  void (*pack_nbits)(const PackedLayout&, const PackSources&, int64_t begin, int64_t end, std::byte* packed);
  // Quantises rows [begin, end) of A into shared scratch. Row tiles of the GEMM must not be cut: begin and end are
  // bounds of row blocks.
  void (*quantise_rows)(const MatMulArgs&, int64_t begin, int64_t end);
  // f16 A as floats: rows [begin, end) into shared scratch, K apart.
  void (*convert_rows)(const MatMulArgs&, int64_t begin, int64_t end);
  void (*floats_tile)(const MatMulArgs&, const TileRange&, std::byte* scratch);
  void (*nbits_float_tile)(const MatMulArgs&, const TileRange&, std::byte* scratch);
  void (*nbits_int_tile)(const MatMulArgs&, const TileRange&, std::byte* scratch);
};

extern const MatMulKernels kMatMulScalar;
extern const MatMulKernels kMatMulAvx2;

}  // namespace ompipe::kernels
