#include "ompipe/kernels/quantize.h"

#include "simd_kernels.h"
#include "strided_runs.h"

namespace ompipe::kernels {

int64_t dynamic_quantize_scratch_bytes(int64_t count) { return element_tiles(count) * 2 * int64_t(sizeof(float)); }

TiledCall dynamic_quantize_call(const DynamicQuantizeArguments& a, Isa isa) {
  constexpr double kNsPerCompared = 0.2, kNsPerQuantised = 0.3;
  const int64_t tiles = element_tiles(a.count);
  TiledCall call = one_phase(&a, simd_kernels(isa).dynamic_quantize, tiles, kNsPerCompared * double(a.count));
  call.phase_count = 3;
  call.tile_counts = {tiles, 1, tiles};
  call.phase_ns[2] = kNsPerQuantised * double(a.count);
  return call;
}

}  // namespace ompipe::kernels
