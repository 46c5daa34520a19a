#include "ompipe/kernels/batched_matmul.h"

#include "batched_matmul_tiles.h"
#include "simd_kernels.h"

namespace ompipe::kernels {

TiledCall batched_matmul_call(const BatchedMatMulArguments& a, Isa isa) {
  constexpr double kNsPerMultiplyAdd = 0.03;
  const double products = double(a.batch.element_count) * double(a.m) * double(a.n) * double(a.k);
  TiledCall call =
      one_phase(&a, simd_kernels(isa).batched_matmul, batched_matmul_tiles(a).count, kNsPerMultiplyAdd * products);
  call.tile_scratch_bytes = kPanelBytes;
  return call;
}

}  // namespace ompipe::kernels
