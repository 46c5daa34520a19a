// ReduceSum and ReduceMean over any axes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ompipe/kernels/element_type.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/strided.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

enum class ReduceOp : uint8_t { sum, mean };

// kept: operand 0 the contiguous output, operand 1 the input, one element for each output. reduced: operand 0 the
// input, over the elements that one output sums.
struct ReduceArguments {
  ReduceOp op = ReduceOp::sum;
  ElementType type = ElementType::f32;  // f32, i32 or i64
  StridedLoop kept, reduced;
  const void* x = nullptr;  // element [0, 0, ...]
  void* y = nullptr;        // contiguous over the kept dimensions
};

// Fills kept and reduced for an input layout and axes (negative ones count from the end; none: all); nothing if an axis
// is out of range or given twice. Whether the output keeps dimensions of 1 makes no difference here.
std::optional<ReduceArguments> make_reduce(ReduceOp op, ElementType type, const Layout& input,
                                           std::span<const int64_t> axes);

// One phase; the arguments must outlive the call. float32 sums are in the order of row_sums.h where the reduced
// elements are contiguous, else one chain in row-major order; integers wrap and their mean truncates. The mean of
// nothing is NaN, of no integers 0. The same bits for every ISA. Any thread; no errors.
TiledCall reduce_call(const ReduceArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
