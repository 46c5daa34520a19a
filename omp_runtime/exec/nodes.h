// The table from an operator to what the frame does with its nodes, and what the execute functions share.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "node_context.h"
#include "ompipe/kernels/element_type.h"
#include "ompipe/model/ops.h"

namespace ompipe::exec {

// The elements of an operator's output as a view of its first input: Reshape, Transpose, Split, Slice...
struct Moved {
  kernels::Layout layout;
  int64_t offset = 0;  // in elements, from the input's first
};

struct NodeSpec {
  // Measures or runs the node; see NodeContext. Null: this operator can't run.
  Status (*execute)(NodeContext& node) = nullptr;
  // Bit i: input i may have any strides. Other inputs are contiguous.
  uint32_t strided_inputs = 0;
  // For an operator that only moves elements: false when the input's strides don't allow a view. Null: computes.
  bool (*move)(const NodeContext& node, int output, Moved& moved) = nullptr;
};

const NodeSpec& node_spec(model::OpKind kind);

// Execute functions, by file.
Status run_matmul_nbits(NodeContext& node);  // matmul.cpp
Status run_matmul(NodeContext& node);
Status run_gemm(NodeContext& node);
Status run_matmul_integer(NodeContext& node);  // quantized.cpp
Status run_dynamic_quantize_linear(NodeContext& node);
Status run_group_query_attention(NodeContext& node);  // attention.cpp
Status run_simplified_layer_norm(NodeContext& node);  // norms.cpp
Status run_skip_simplified_layer_norm(NodeContext& node);
Status run_layer_norm(NodeContext& node);
Status run_softmax(NodeContext& node);  // reductions.cpp
Status run_reduce(NodeContext& node);
Status run_unary(NodeContext& node);  // elementwise.cpp
Status run_binary(NodeContext& node);
Status run_where(NodeContext& node);
Status run_cast(NodeContext& node);
Status run_gather(NodeContext& node);  // gather.cpp
Status run_gather_block_quantized(NodeContext& node);
Status run_moved(NodeContext& node);  // movement.cpp: copies what move() describes
Status run_concat(NodeContext& node);
Status run_shape(NodeContext& node);  // shape_ops.cpp
Status run_constant_of_shape(NodeContext& node);
Status run_range(NodeContext& node);

// Movements (movement.cpp).
bool move_reshaped(const NodeContext& node, int output, Moved& moved);
bool move_transposed(const NodeContext& node, int output, Moved& moved);
bool move_sliced(const NodeContext& node, int output, Moved& moved);
bool move_split(const NodeContext& node, int output, Moved& moved);
bool move_expanded(const NodeContext& node, int output, Moved& moved);

// Up to kMaxRank integers, inline.
struct Integers {
  std::array<int64_t, kernels::kMaxRank> values = {};
  int count = 0;
  std::span<const int64_t> span() const { return {values.data(), size_t(count)}; }
};
// Those of an attribute (null: of none), else of an operand that is known or already computed; nothing when there is
// neither, when there are more than kMaxRank, or when the operand's elements are not known yet (measuring).
std::optional<Integers> integers(const NodeContext& node, const char* attribute, int input);

// In [0, rank).
inline int axis_of(int64_t axis, int rank) { return int(axis < 0 ? axis + rank : axis); }

// Nothing for a type that kernels don't compute on.
std::optional<kernels::ElementType> element_type(model::DType dtype);

// Copies `from` into the elements that `layout` describes at `to`, converting nothing. `from` broadcasts to the layout.
Status copy_elements(NodeContext& node, const Tensor& from, const kernels::Layout& layout, std::byte* to);

// The float32 operand's elements; null when it is absent.
const float* floats_or_null(const NodeContext& node, int input);

// An error unless the operand is there and float32.
std::optional<Error> expect_float(const NodeContext& node, int input);

}  // namespace ompipe::exec
