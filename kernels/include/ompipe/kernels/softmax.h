// Softmax of float32 over any axis.
#pragma once

#include <cstdint>

#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// x and y are contiguous [outer, axis, inner]; the exponentials of each [outer, :, inner] are divided by their sum. y
// may be x. A NaN, +inf, or nothing but -inf in a group makes all of it NaN, as numpy's x - max(x) does.
struct SoftmaxArguments {
  const float* x = nullptr;
  float* y = nullptr;
  int64_t outer = 0, axis = 0, inner = 1;
};

// One phase; the arguments must outlive the call. The sum's order is that of row_sums.h for inner = 1, else rising
// along the axis; the same bits for every ISA. Any thread; no errors.
TiledCall softmax_call(const SoftmaxArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
