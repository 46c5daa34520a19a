// Conversion between element types (ONNX Cast).
#pragma once

#include <cstdint>

#include "ompipe/kernels/element_type.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// Contiguous, `count` elements; from and to do not overlap.
struct ConvertArguments {
  ElementType from_type = ElementType::f32, to_type = ElementType::f32;
  const void* from = nullptr;
  void* to = nullptr;
  int64_t count = 0;
};

// One phase; the arguments must outlive the call. Between floats: rounded to nearest even, once from float32 to float16
// or bfloat16 (float64 passes through float32); NaN stays NaN, overflow is infinity. Float to integer: truncated,
// saturated, NaN gives 0 (ONNX leaves these open). Integer to integer: the low bits. To boolean: != 0. The same bits
// for every ISA. Any thread; no errors.
TiledCall convert_call(const ConvertArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
