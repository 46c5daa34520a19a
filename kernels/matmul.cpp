#include "ompipe/kernels/matmul.h"

#include <algorithm>
#include <cstdint>

#include "matmul_kernels.h"

namespace ompipe::kernels {
namespace {

// Rough rates of one Zen 3 core, for tile sizes and predictions only: work in nanoseconds must come out right within 2
// x.
constexpr double kBytesPerNs = 12, kFloatOpsPerNs = 65, kIntOpsPerNs = 130, kDequantisedPerNs = 8, kQuantisedPerNs = 2;

// A tile of one panel, or of a block of panels, is no longer than that: the last ones finish together, and whoever
// helps is free for something urgent.
constexpr double kMaxPanelNs = 800'000;

// A call that is shorter than so many tiles is cut into so many of them, but none shorter than that. One of many float
// rows is cut into so many at least before its tiles are blocks of several panels.
constexpr double kTilesOfShortCall = 8, kMinTileNs = 4'000, kTilesOfBlocks = 32;

int64_t panel_columns(const MatMulSpec& spec) { return is_integer(spec) ? kGroupColumns : kPanelColumns; }

// Time of `rows` rows and one panel (or group).
double panel_ns(const MatMulSpec& spec, int64_t rows) {
  const double elements = static_cast<double>(spec.k) * static_cast<double>(panel_columns(spec));
  const double ops = 2 * elements * static_cast<double>(rows);
  if (spec.format != WeightFormat::nbits) return std::max(ops / kFloatOpsPerNs, elements * 4 / kBytesPerNs);
  if (spec.accuracy_level == 0) return ops / kFloatOpsPerNs + elements / kDequantisedPerNs;
  const double bytes = elements * static_cast<double>(group_record(spec).bytes) / (kGroupColumns * spec.block);
  return std::max(ops * (spec.bits == 8 ? 2 : 1) / kIntOpsPerNs, bytes / kBytesPerNs);
}

// Rows of A that a tile passes over: as many as keep one panel below kMaxPanelNs, or the quantised rows in the cache.
int64_t most_rows(const MatMulSpec& spec, const Tuning& tuning) {
  const auto most = static_cast<double>(tuning.rows);
  int64_t rows = static_cast<int64_t>(kMaxPanelNs * most / panel_ns(spec, tuning.rows));
  if (is_integer(spec)) rows = tuning.quantised_bytes / quantised_row_bytes(spec);
  rows = std::clamp<int64_t>(rows, 4 * kRowsPerTile, tuning.rows);
  return rows / kRowsPerTile * kRowsPerTile;
}

Tiling tiling_of(const PackedLayout& layout, int64_t m) {
  const MatMulSpec& spec = layout.spec;
  Tiling tiling;
  if (m < 1) return tiling;
  const int64_t panels = divide_up(spec.n, panel_columns(spec));
  int64_t blocks = divide_up(m, most_rows(spec, layout.tuning));
  // Few panels are made up for by more blocks of rows, while these still share what is read.
  if (!is_integer(spec))
    blocks = std::max(blocks, std::min(divide_up(int64_t(kTilesOfBlocks), panels), m / kBlockedRows));
  tiling.rows = blocks == 1 ? m : divide_up(divide_up(m, blocks), kRowsPerTile) * kRowsPerTile;
  tiling.row_blocks = divide_up(m, tiling.rows);
  // The micro-kernels take 4 panels at once with one row, 2 with few, or if registers hold 16 columns.
  const bool wide = layout.isa == Isa::avx512 || layout.isa == Isa::avx512_vnni;
  const int64_t step = tiling.rows == 1 ? 4 : tiling.rows <= 3 || wide ? 2 : 1;
  const double step_ns = panel_ns(spec, tiling.rows) * static_cast<double>(step);
  const int64_t steps = divide_up(panels, step);
  const double all_ns = step_ns * static_cast<double>(steps * tiling.row_blocks);
  double tile_ns =
      std::min(std::max(all_ns / kTilesOfShortCall, kMinTileNs), 1e3 * static_cast<double>(layout.tuning.tile_us));
  if (!is_integer(spec) && tiling.rows >= kBlockedRows) {
    const double block_ns = std::min(kBlockPanels * panel_ns(spec, tiling.rows), kMaxPanelNs);
    tile_ns = std::max(tile_ns, std::min(all_ns / kTilesOfBlocks, block_ns));
  }
  // Equal tiles, so that callers who take as many end together.
  const int64_t tiles = divide_up(steps, std::clamp<int64_t>(static_cast<int64_t>(tile_ns / step_ns + 0.5), 1, steps));
  tiling.panels = divide_up(steps, tiles) * step;
  tiling.column_tiles = divide_up(panels, tiling.panels);
  return tiling;
}

void run_tile(const void* arguments, int phase, int64_t tile, std::byte* tile_scratch) {
  const MatMulArgs& args = *static_cast<const MatMulArgs*>(arguments);
  const MatMulSpec& spec = args.layout->spec;
  const Isa isa = args.layout->isa;
  const Tiling tiling = tiling_of(*args.layout, args.m);
  if (prepares_rows(spec, args.m, args.type) && phase == 0) {
    const auto prepare =
        kernel_of(isa, is_integer(spec) ? &MatMulKernels::quantise_rows : &MatMulKernels::prepare_floats);
    return prepare(args, row_part(args.m, tiling.rows, spec.k, tile));
  }
  // Row blocks are the fast index: tiles that follow each other share weights.
  const int64_t row_block = tile % tiling.row_blocks, column_tile = tile / tiling.row_blocks;
  const TileRange range = {
      .row_begin = row_block * tiling.rows,
      .row_end = std::min((row_block + 1) * tiling.rows, args.m),
      .panel_begin = column_tile * tiling.panels,
      .panel_end = std::min((column_tile + 1) * tiling.panels, divide_up(spec.n, panel_columns(spec))),
  };
  const auto run = kernel_of(isa, is_integer(spec)                     ? &MatMulKernels::nbits_int_tile
                                  : spec.format == WeightFormat::nbits ? &MatMulKernels::nbits_float_tile
                                                                       : &MatMulKernels::floats_tile);
  run(args, range, tile_scratch);
}

}  // namespace

int64_t shared_scratch_bytes(const PackedLayout& layout, int64_t m, ElementType type) {
  if (is_integer(layout.spec)) return m * quantised_row_bytes(layout.spec);
  return prepares_rows(layout.spec, m, type) ? m * layout.spec.k * int64_t(sizeof(float)) : 0;
}

void pack_range(const PackedLayout& layout, const PackSources& sources, int64_t byte_begin, int64_t byte_end,
                std::byte* packed) {
  if (byte_begin == byte_end) return;
  if (layout.spec.format == WeightFormat::nbits) {
    kernel_of(layout.isa, &MatMulKernels::pack_nbits)(layout, sources, byte_begin, byte_end, packed);
  } else if (is_bytes(layout.spec)) {
    kernel_of(layout.isa, &MatMulKernels::pack_bytes)(layout, sources, byte_begin, byte_end, packed);
  } else {
    kernel_of(layout.isa, &MatMulKernels::pack_floats)(layout, sources, byte_begin, byte_end,
                                                       reinterpret_cast<float*>(packed));
  }
}

TiledCall matmul_call(const MatMulArgs& args) {
  const MatMulSpec& spec = args.layout->spec;
  const Tiling tiling = tiling_of(*args.layout, args.m);
  const Tuning& tuning = args.layout->tuning;
  const int64_t tiles = tiling.row_blocks * tiling.column_tiles;
  TiledCall call;
  call.arguments = &args;
  call.run_tile = run_tile;
  const bool prepares = prepares_rows(spec, args.m, args.type);
  call.phase_count = prepares ? 2 : 1;
  call.tile_counts = prepares ? std::array<int64_t, kMaxPhases>{row_part_tiles(args.m, tiling.rows, spec.k), tiles}
                              : std::array<int64_t, kMaxPhases>{tiles};
  call.tile_scratch_bytes = (is_integer(spec) ? 1 : kBlockPanels) * tuning.rows * kPanelColumns * sizeof(float) +
                            (spec.format == WeightFormat::nbits && !is_integer(spec)
                                 ? kStripPanels * strip_floats(*args.layout) * sizeof(float)
                                 : 0);
  if (prepares) call.phase_ns[0] = static_cast<double>(args.m * spec.k) / kQuantisedPerNs;
  call.phase_ns[size_t(call.phase_count - 1)] =
      panel_ns(spec, args.m) * static_cast<double>(divide_up(spec.n, panel_columns(spec)));
  return call;
}

}  // namespace ompipe::kernels
