// The rate of the float micro-kernel itself, on operands that stay in L1: what packing, tiles and memory cost is the
// difference to it.
#pragma once

#include "matmul_case.h"

namespace ompipe::bench {

// The same number of floating-point operations as `measured`, within a millionth, in equal tiles. `measured` outlives
// the call. Needs AVX2 and FMA.
kernels::TiledCall l1_call(const MatMulCase& measured);

}  // namespace ompipe::bench
