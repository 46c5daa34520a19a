#include "ompipe/kernels/norm.h"

#include "norm_simd.h"
#include "simd_kernels.h"

namespace ompipe::kernels {
namespace {

constexpr double kNsPerElement = 0.5;

TiledCall row_call(const void* arguments, TiledCall::RunTile run, int64_t rows, int64_t columns) {
  const int64_t per_tile = norm_rows_per_tile(columns);
  const int64_t tiles = columns == 0 ? 0 : (rows + per_tile - 1) / per_tile;
  return one_phase(arguments, run, tiles, kNsPerElement * double(rows) * double(columns));
}

}  // namespace

TiledCall rms_norm_call(const RmsNormArguments& arguments, Isa isa) {
  return row_call(&arguments, simd_kernels(isa).rms_norm, arguments.rows, arguments.columns);
}

TiledCall layer_norm_call(const LayerNormArguments& arguments, Isa isa) {
  return row_call(&arguments, simd_kernels(isa).layer_norm, arguments.rows, arguments.columns);
}

}  // namespace ompipe::kernels
