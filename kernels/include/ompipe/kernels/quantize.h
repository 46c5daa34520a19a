// ONNX DynamicQuantizeLinear: float32 to uint8 with a scale and a zero point that fit the tensor.
#pragma once

#include <cstdint>

#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// scale = (max(x, 0) - min(x, 0)) / 255, 1 if that is 0; zero_point = -min / scale, rounded to nearest even and within
// 0 .. 255; y[i] = x[i] / scale, rounded to nearest even, + zero_point, within 0 .. 255. A NaN counts for neither
// bound, and gives 0. Infinity, or a range above the largest float, gives an infinite scale; then y
// means nothing.
struct DynamicQuantizeArguments {
  const float* x = nullptr;
  int64_t count = 0;
  uint8_t* y = nullptr;
  float* scale = nullptr;
  uint8_t* zero_point = nullptr;
  float* shared_scratch = nullptr;  // dynamic_quantize_scratch_bytes; one for all tiles of the call
};

int64_t dynamic_quantize_scratch_bytes(int64_t count);

// Three phases: the bounds of each tile, the scale, y. The arguments must outlive the call; until a tile runs only
// `count` is read. The same bits for every ISA. Any thread; no errors.
TiledCall dynamic_quantize_call(const DynamicQuantizeArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
