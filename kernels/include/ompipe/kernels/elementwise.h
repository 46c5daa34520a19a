// Element-wise operators with numpy broadcasting, over strided operands.
#pragma once

#include <array>
#include <cstdint>

#include "ompipe/kernels/element_type.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/strided.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// float32 on all of them; i32 and i64 on neg, abs and relu (the rest has no integer meaning). boolean on logical_not
// alone. Greatest errors of the transcendental ones: exp 1 ulp, erf 1, tanh 1.5, sigmoid 2; gelu and gelu_tanh (ONNX's
// approximate = "none" and "tanh") cancel below about -1, to 2^-23 |x|; the others round correctly. NaN in gives NaN
// out.
enum class UnaryOp : uint8_t {
  abs,
  neg,
  relu,
  reciprocal,
  sqrt,
  exp,
  sigmoid,
  tanh,
  erf,
  gelu,
  gelu_tanh,
  logical_not,
};

// float32, i32 and i64. Integer results wrap; division truncates, by 0 it gives 0; integer pow with a negative exponent
// gives the truncated quotient. min and max of a NaN are NaN. pow: exact squares and roots for exponents 2 and 0.5,
// else the C library's powf. equal, less and greater compare and write boolean; equal also takes boolean.
enum class BinaryOp : uint8_t { add, sub, mul, div, pow, min, max, equal, less, greater };

// One call. loop comes from make_loop(output, inputs); pointers are those of element [0, 0, ...] of each layout. The
// output may be one of the inputs if both have the same strides; other overlaps are the caller's error.
struct ElementwiseArguments {
  StridedLoop loop;
  ElementType type = ElementType::f32;  // of the inputs; of `where`: of its second and third, 1 to 8 bytes of any kind
  void* output = nullptr;
  std::array<const void*, 3> inputs = {};
};

// Whether the operator is defined on `type`; the calls below demand it.
bool supports(UnaryOp op, ElementType type);
bool supports(BinaryOp op, ElementType type);

// One phase; the arguments must outlive the call. Any thread; no errors; all ISAs give the same bits.
TiledCall unary_call(UnaryOp op, const ElementwiseArguments& arguments, Isa isa);
TiledCall binary_call(BinaryOp op, const ElementwiseArguments& arguments, Isa isa);

// output = inputs[0] ? inputs[1] : inputs[2]; inputs[0] is boolean.
TiledCall where_call(const ElementwiseArguments& arguments);

// output = inputs[0], element by element: Expand, Transpose, Slice, the parts of Concat, and (all input strides 0)
// ConstantOfShape. Any element type.
TiledCall copy_call(const ElementwiseArguments& arguments);

// output[i] = start + i * delta for i < count (ONNX Range); start and delta point to one element. f32, i32, i64.
void fill_range(ElementType type, const void* start, const void* delta, int64_t count, void* output);

}  // namespace ompipe::kernels
