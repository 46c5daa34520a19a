// The operators this runtime knows: one row each, found by domain, name and version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ompipe::model {

// What a node computes: the kernel that runs it. `none` until resolution has chosen one.
enum class OpKind : uint8_t {
  none,
  // com.microsoft and the decoder exports' fused norms
  mat_mul_nbits,
  group_query_attention,
  simplified_layer_norm,
  skip_simplified_layer_norm,
  gather_block_quantized,
  // products
  mat_mul,
  gemm,
  mat_mul_integer,
  dynamic_quantize_linear,
  // element-wise, one input
  cast,
  sigmoid,
  sqrt,
  erf,
  tanh,
  relu,
  neg,
  gelu,
  // element-wise, several inputs, broadcast
  add,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  equal,
  where,
  // along axes
  softmax,
  reduce_sum,
  reduce_mean,
  layer_norm,
  // shapes and movement
  identity,
  shape,
  reshape,
  transpose,
  unsqueeze,
  squeeze,
  concat,
  slice,
  split,
  gather,
  expand,
  constant_of_shape,
  range,
  // holding graphs: resolution and plan walk those
  if_else,
  loop,
};

class InferContext;

// Writes the outputs' dtypes, shapes and, where they can be known, small integer contents; false after
// InferContext::fail.
using InferFunction = bool (*)(InferContext&);

// The forms of an attribute's value, as AttributeValue holds them.
enum class AttributeKind : uint8_t { integer, real, text, integers, tensor, graph };

// An attribute that an operator takes. Every value is honoured, or means the same here, unless `values` names those
// that are.
struct AttributeSpec {
  std::string_view name;
  AttributeKind kind = AttributeKind::integer;
  std::string_view values = {};  // separated by spaces; empty: any
};

// One operator in a range of versions that share rule and kernel. Adding an operator is a row and a function.
struct OpSpec {
  std::string_view domain, name;  // "" is ai.onnx
  int64_t min_version, max_version;
  OpKind kind;
  int min_inputs, max_inputs;                      // the first min_inputs must be there; -1: any number
  int max_outputs;                                 // -1: any number
  InferFunction infer;                             // null: of nodes that hold graphs (infer_flow.h)
  std::span<const AttributeSpec> attributes = {};  // any other is refused
};

// The row for a node, or null: unknown operator, or known only in other versions. Any thread.
const OpSpec* find_op(std::string_view domain, std::string_view name, int64_t version);
// The whole table, for error texts and documentation.
std::span<const OpSpec> all_ops();

}  // namespace ompipe::model
