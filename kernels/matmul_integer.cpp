#include "ompipe/kernels/matmul_integer.h"

#include <algorithm>

#include "matmul_integer_kernels.h"

namespace ompipe::kernels {
namespace {

// Rough rates of one Zen 3 core, for tile sizes and predictions only.
constexpr double kBytesPerNs = 12, kOpsPerNs = 65, kPreparedPerNs = 4, kTileNs = 40'000;

double group_ns(const MatMulSpec& spec, int64_t rows) {
  const double bytes = static_cast<double>(byte_units(spec) * kByteUnitBytes);
  return std::max(2 * bytes * static_cast<double>(rows) / kOpsPerNs, bytes / kBytesPerNs);
}

Tiling tiling_of(const PackedLayout& layout, int64_t m) {
  const MatMulSpec& spec = layout.spec;
  Tiling tiling;
  if (m < 1) return tiling;
  int64_t most = (int64_t{256} << 10) / byte_row_bytes(spec);  // half of L2
  most = std::clamp<int64_t>(most, 4 * kRowsPerTile, kMaxByteRows) / kRowsPerTile * kRowsPerTile;
  const int64_t blocks = divide_up(m, most);
  tiling.rows = blocks == 1 ? m : divide_up(divide_up(m, blocks), kRowsPerTile) * kRowsPerTile;
  tiling.row_blocks = divide_up(m, tiling.rows);
  const int64_t groups = divide_up(spec.n, kGroupColumns);
  // The micro-kernel takes 4 groups at once with one row, 2 with two, or if registers hold 16 columns.
  const bool wide = layout.isa == Isa::avx512 || layout.isa == Isa::avx512_vnni;
  const int64_t step = tiling.rows == 1 ? 4 : tiling.rows == 2 || wide ? 2 : 1;
  const double step_ns = group_ns(spec, tiling.rows) * static_cast<double>(step);
  tiling.panels = std::clamp<int64_t>(static_cast<int64_t>(kTileNs / step_ns + 0.5), 1, divide_up(groups, step)) * step;
  tiling.column_tiles = divide_up(groups, tiling.panels);
  return tiling;
}

void run_tile(const void* arguments, int phase, int64_t tile, std::byte* tile_scratch) {
  const auto& args = *static_cast<const MatMulIntegerArgs*>(arguments);
  const MatMulSpec& spec = args.layout->spec;
  const Tiling tiling = tiling_of(*args.layout, args.m);
  if (phase == 0) {
    return kernel_of(args.layout->isa, &MatMulKernels::prepare_bytes)(args,
                                                                      row_part(args.m, tiling.rows, spec.k, tile));
  }
  // Row blocks are the fast index: tiles that follow each other share weights.
  const int64_t row_block = tile % tiling.row_blocks, column_tile = tile / tiling.row_blocks;
  const TileRange range = {
      .row_begin = row_block * tiling.rows,
      .row_end = std::min((row_block + 1) * tiling.rows, args.m),
      .panel_begin = column_tile * tiling.panels,
      .panel_end = std::min((column_tile + 1) * tiling.panels, divide_up(spec.n, kGroupColumns)),
  };
  kernel_of(args.layout->isa, &MatMulKernels::integer_tile)(args, range, tile_scratch);
}

}  // namespace

int64_t integer_scratch_bytes(const PackedLayout& layout, int64_t m) { return m * byte_row_bytes(layout.spec); }

TiledCall matmul_integer_call(const MatMulIntegerArgs& args) {
  const MatMulSpec& spec = args.layout->spec;
  const Tiling tiling = tiling_of(*args.layout, args.m);
  TiledCall call;
  call.arguments = &args;
  call.run_tile = run_tile;
  call.phase_count = 2;
  call.tile_counts = {row_part_tiles(args.m, tiling.rows, spec.k), tiling.row_blocks * tiling.column_tiles};
  call.tile_scratch_bytes = 4 * (kMaxByteRows + 1) * kGroupColumns * sizeof(int32_t);
  call.phase_ns = {static_cast<double>(args.m * spec.k) / kPreparedPerNs,
                   group_ns(spec, args.m) * static_cast<double>(divide_up(spec.n, kGroupColumns))};
  return call;
}

}  // namespace ompipe::kernels
