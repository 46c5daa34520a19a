// What matmul.cpp dispatches to: one table of functions for each ISA, all compiled from the same templates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/portable.h"

namespace ompipe::kernels {

inline constexpr int kPanelColumns = 16;  // of float weights, and of a dequantised strip
inline constexpr int kGroupColumns = 8;   // of nbits weights and of bytes
// Rows of the integer micro-kernels at most, so of a tile of quantised rows. Where there are several row blocks, all
// but the last are multiples of it.
inline constexpr int kRowsPerTile = 6;

// Calls with more rows of floats than that pack them first: the micro-kernel then reads one stream, whatever the stride
// of A, and no rows that lie a power of two apart drive each other out of the caches.
inline constexpr int kPlainRows = 3;

// Rows from which float panels are taken in blocks, and the panels of a block at most.
inline constexpr int kBlockedRows = 24, kBlockPanels = 4;
struct FloatBlock {
  int panels;
  int64_t k;
};

// Panels of a strip of dequantised weights, at most.
inline constexpr int kStripPanels = 2;

// Bytes of one record (a group of 8 columns, one block of k) and of its parts.
struct GroupRecord {
  int64_t zero_points_at, quants_at, bytes;
};
GroupRecord group_record(const MatMulSpec& spec);

// Of one scale and one zero point in a record (0: there are none), and of one column's zero points in the file.
inline int64_t packed_scale_bytes(const MatMulSpec& spec) {
  return spec.scale_type == ScaleType::f16 || spec.half_scales ? 2 : 4;
}
int64_t packed_zero_point_bytes(const MatMulSpec& spec);
int64_t zero_point_row_bytes(const MatMulSpec& spec);

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline bool is_integer(const MatMulSpec& spec) {
  return spec.format == WeightFormat::nbits && spec.accuracy_level == 4;
}
// Whether a first phase brings A into the form that the tiles read.
inline bool prepares_rows(const MatMulSpec& spec, int64_t m, ElementType type) {
  return is_integer(spec) || type == ElementType::f16 || m > kPlainRows;
}
inline int64_t blocks_of(const MatMulSpec& spec) { return divide_up(spec.k, spec.block); }
// Elements of k with one scale of activations, whose dot with 4-bit weights is summed in 16 bits (vec_avx2.h).
inline constexpr int kMostUnit = 32;
inline int unit_of(const MatMulSpec& spec) { return spec.block < kMostUnit ? spec.block : kMostUnit; }
inline int64_t blob_bytes(const MatMulSpec& spec) { return int64_t{spec.block} * spec.bits / 8; }
inline bool is_bytes(const MatMulSpec& spec) {
  return spec.format == WeightFormat::u8 || spec.format == WeightFormat::s8;
}
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

// k is cut into as few equal strips as can be, of at most `most`. Both are multiples of kMostUnit, but for a strip that
// is all of k.
inline int64_t strip_length(int64_t k, int64_t most) {
  return k <= most ? k : divide_up(divide_up(k, divide_up(k, most)), kMostUnit) * kMostUnit;
}
// Of one panel's part of a strip of dequantised weights, whole units.
inline int64_t strip_floats(const PackedLayout& layout) {
  return divide_up(strip_length(layout.spec.k, layout.tuning.strip_k), kMostUnit) * kMostUnit * kPanelColumns;
}

// One of `parts` parts of the rows [begin, end) of a row block, for the phase that prepares A.
struct RowPart {
  int64_t begin, end, part, parts;
};

// The rows of a tile, whole.
inline RowPart all_rows(const TileRange& tile) { return {tile.row_begin, tile.row_end, 0, 1}; }

// How many parts a block is worth: some 10 us each.
inline int64_t row_parts(int64_t rows, int64_t k) {
  constexpr int64_t kElements = 32 << 10;
  const int64_t most = divide_up(rows, kRowsPerTile), wanted = divide_up(rows * k, kElements);
  return wanted < most ? wanted : most;
}

// The tiles of the phase that prepares `m` rows in blocks of `block_rows`, and what one of them prepares.
inline int64_t row_part_tiles(int64_t m, int64_t block_rows, int64_t k) {
  return m < 1 ? 0 : divide_up(m, block_rows) * row_parts(block_rows, k);
}
inline RowPart row_part(int64_t m, int64_t block_rows, int64_t k, int64_t tile) {
  const int64_t parts = row_parts(block_rows, k), begin = tile / parts * block_rows;
  return {begin, m - begin < block_rows ? m : begin + block_rows, tile % parts, parts};
}

// Calls body(row, rows) for the micro-kernel calls of a part. The whole block is cut into as few of them, of at most
// `most` rows, as can be, as even as can be (32 = 6 6 5 5 5 5).
template <class Body>
void for_row_tiles(const RowPart& part, int most, const Body& body) {
  const int64_t rows = part.end - part.begin, tiles = divide_up(rows, most);
  if (tiles == 0) return;
  const int64_t least = rows / tiles, larger = rows % tiles;
  for (int64_t t = tiles * part.part / part.parts; t < tiles * (part.part + 1) / part.parts; ++t) {
    body(part.begin + t * least + (t < larger ? t : larger), static_cast<int>(least + (t < larger ? 1 : 0)));
  }
}

// Calls body.operator()<rows>(), 1 <= rows <= most.
template <int most, class Body>
void with_rows(int rows, const Body& body) {
  if constexpr (most > 1) {
    if (rows < most) return with_rows<most - 1>(rows, body);
  }
  body.template operator()<most>();
}

// Bytes of one row of A quantised for accuracy_level 4, in units of unit_of(spec): int8 each, one float scale, one
// int32 sum.
inline int64_t quantised_row_bytes(const MatMulSpec& spec) {
  return blocks_of(spec) * (spec.block / unit_of(spec)) * (unit_of(spec) + 8);
}

// Products straight from the source take at most this many rows, in this many elements of k at a time (accuracy_level
// 4: 32 bytes of every column).
inline constexpr int kDirectRows = 3, kSpanK = 64;
static_assert(kDirectRows <= kPlainRows, "they read the rows of A as they lie");

// A row quantised for them: of each span the even elements, then the odd ones; behind them a scale and an offset a
// unit.
struct SpanRow {
  int64_t spans, units, bytes;
};
inline SpanRow span_row(const MatMulSpec& spec) {
  SpanRow row;
  row.units = blocks_of(spec) * (spec.block / unit_of(spec));
  row.spans = divide_up(row.units * unit_of(spec), kSpanK);
  row.bytes = row.spans * kSpanK + row.units * 8;
  return row;
}

// A strip of float weights: elements [k, k + count) of `panels` panels that lie `panel_stride` floats apart in scratch.
// It takes at most kFloatStripBytes, in L2, and the sums of the rows that it is multiplied by at most kStripSumsBytes.
inline constexpr int kFloatStripPanels = 8, kFloatStripBytes = 64 << 10, kStripSumsBytes = 32 << 10;
struct FloatStrip {
  int64_t panel, panels, k, count, panel_stride;
};

// Columns that a tile straight from row-major floats takes at most: a page of each row of float32.
inline constexpr int kDirectColumns = 1024;

struct MatMulIntegerArgs;

// A set that builds on another may leave out what that one does as well; scalar, avx2 and neon are whole
// (matmul_table.h).
struct MatMulKernels {
  void (*pack_floats)(const PackedLayout&, const PackSources&, int64_t begin, int64_t end, float* packed) = nullptr;
  void (*pack_nbits)(const PackedLayout&, const PackSources&, int64_t begin, int64_t end, std::byte* packed) = nullptr;
  // Quantises a part of a row block of A into shared scratch.
  void (*quantise_rows)(const MatMulArgs&, const RowPart&) = nullptr;
  // A as floats into shared scratch, a part of a row block: at most kPlainRows in all K apart, more packed for the
  // micro-kernel.
  void (*prepare_floats)(const MatMulArgs&, const RowPart&) = nullptr;
  void (*floats_tile)(const MatMulArgs&, const TileRange&, std::byte* scratch) = nullptr;
  void (*nbits_float_tile)(const MatMulArgs&, const TileRange&, std::byte* scratch) = nullptr;
  void (*nbits_int_tile)(const MatMulArgs&, const TileRange&, std::byte* scratch) = nullptr;
  // A strip of B as in the file, to `strip`, and to its panels' final place in `packed` unless that is null.
  void (*pack_strip)(const MatMulSpec&, const std::byte* b, const FloatStrip&, float* strip, float* packed) = nullptr;
  // sums[p][r][0..16) += rows [begin, end) of A * a strip; then those rows of the output, of the sums over all of k.
  void (*multiply_strip)(const MatMulArgs&, const FloatStrip&, const float* strip, int64_t begin, int64_t end,
                         float* sums) = nullptr;
  void (*write_strip)(const MatMulArgs&, const FloatStrip&, const float* sums, int64_t begin, int64_t end) = nullptr;
  // At most kDirectRows rows, columns [begin, end), begin a multiple of 16; scratch: kDirectRows * kDirectColumns
  // floats.
  void (*floats_direct_tile)(const PortableArgs&, int64_t begin, int64_t end, std::byte* scratch) = nullptr;
  void (*quantise_spans)(const MatMulArgs&) = nullptr;
  void (*nbits_direct_tile)(const PortableArgs&, int64_t begin, int64_t end) = nullptr;
  void (*pack_bytes)(const PackedLayout&, const PackSources&, int64_t begin, int64_t end, std::byte* packed) = nullptr;
  // As quantise_rows, of int8.
  void (*prepare_bytes)(const MatMulIntegerArgs&, const RowPart&) = nullptr;
  void (*integer_tile)(const MatMulIntegerArgs&, const TileRange&, std::byte* scratch) = nullptr;
};

extern const MatMulKernels kMatMulScalar;
extern const MatMulKernels kMatMulAvx2;
extern const MatMulKernels kMatMulAvxVnni;
extern const MatMulKernels kMatMulAvx512;
extern const MatMulKernels kMatMulAvx512Vnni;
extern const MatMulKernels kMatMulNeon;
extern const MatMulKernels kMatMulNeonDotprod;

// The table of an available `isa`.
const MatMulKernels& matmul_table(Isa isa);

// The set that one beyond scalar, avx2 and neon builds on.
inline Isa isa_below(Isa isa) {
  return isa == Isa::avx512_vnni ? Isa::avx512 : isa == Isa::neon_dotprod ? Isa::neon : Isa::avx2;
}

// The kernel that `isa` runs: its own, or the one of the set that it builds on.
template <class Kernel>
Kernel kernel_of(Isa isa, Kernel MatMulKernels::* member) {
  if (const Kernel own = matmul_table(isa).*member) return own;
  return kernel_of(isa_below(isa), member);
}

}  // namespace ompipe::kernels
