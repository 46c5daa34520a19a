#include "ompipe/kernels/rotary.h"

#include "rotary_simd.h"
#include "simd_kernels.h"

namespace ompipe::kernels {
namespace {
constexpr double kNsPerElement = 0.5;
}  // namespace

int64_t find_bad_position(const RotaryArguments& a) {
  if (a.one_offset) {
    const int64_t first = a.position_ids[0];
    return first >= 0 && a.sequence <= a.table.positions && first <= a.table.positions - a.sequence ? -1 : 0;
  }
  for (int64_t i = 0; i < a.batch * a.sequence; ++i) {
    if (a.position_ids[i] < 0 || a.position_ids[i] >= a.table.positions) return i;
  }
  return -1;
}

TiledCall rotary_call(const RotaryArguments& a, Isa isa) {
  const double elements = double(a.batch) * double(a.sequence) * double(a.heads) * double(a.head_size);
  return one_phase(&a, simd_kernels(isa).rotary, a.batch * rotary_tiles_per_row(a.sequence), kNsPerElement * elements);
}

}  // namespace ompipe::kernels
