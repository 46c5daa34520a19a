#include "l1_ceiling.h"
#include "matmul_floats_impl.h"
#include "vec_avx2.h"

namespace ompipe::bench {
namespace {

constexpr int kRows = kernels::kRowsPerTile, kDepth = 256;  // 16 KiB of B, 6 KiB of A
constexpr int64_t kTiles = 16;

void run_tile(const void* arguments, int, int64_t, std::byte*) {
  const MatMulCase& measured = *static_cast<const MatMulCase*>(arguments);
  alignas(64) static thread_local float b[kDepth * kernels::kPanelColumns], a[kRows * kDepth];
  // The empty asm keeps the compiler from knowing what stands in them.
  alignas(64) float sums[kRows * kernels::kPanelColumns] = {};
  const double once = 2.0 * kRows * kDepth * kernels::kPanelColumns;
  const auto times = static_cast<int64_t>(measured.flops() / (once * kTiles) + 0.5);
  for (int64_t i = 0; i < times; ++i) {
    kernels::multiply_rows<kernels::VecAvx2, kRows, 1, true>(a, 0, b, 0, kDepth,
                                                             {sums, 0, sums, kernels::kPanelColumns, 0}, {});
    asm volatile("" : : "r"(a), "r"(b), "r"(sums) : "memory");
  }
}

}  // namespace

kernels::TiledCall l1_call(const MatMulCase& measured) {
  kernels::TiledCall call;
  call.arguments = &measured;
  call.run_tile = run_tile;
  call.phase_count = 1;
  call.tile_counts = {kTiles};
  return call;
}

}  // namespace ompipe::bench
