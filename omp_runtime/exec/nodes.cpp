#include "nodes.h"

#include <fmt/format.h>

#include "ompipe/kernels/elementwise.h"

namespace ompipe::exec {
namespace {

using model::DType;
using model::OpKind;

constexpr uint32_t kAnyStrides = ~uint32_t(0);

NodeSpec make_spec(OpKind kind) {
  switch (kind) {
    case OpKind::mat_mul_nbits:
      return {run_matmul_nbits};
    case OpKind::group_query_attention:
      return {run_group_query_attention, 1u << 3 | 1u << 4};
    case OpKind::simplified_layer_norm:
      return {run_simplified_layer_norm};
    case OpKind::skip_simplified_layer_norm:
      return {run_skip_simplified_layer_norm};
    case OpKind::gather_block_quantized:
      return {run_gather_block_quantized};
    case OpKind::mat_mul:
      return {run_matmul, kAnyStrides};
    case OpKind::gemm:
      return {run_gemm, kAnyStrides};
    case OpKind::mat_mul_integer:
      return {run_matmul_integer};
    case OpKind::dynamic_quantize_linear:
      return {run_dynamic_quantize_linear};
    case OpKind::cast:
      return {run_cast};
    case OpKind::sigmoid:
    case OpKind::sqrt:
    case OpKind::erf:
    case OpKind::tanh:
    case OpKind::relu:
    case OpKind::neg:
    case OpKind::gelu:
      return {run_unary, kAnyStrides};
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::div:
    case OpKind::pow:
    case OpKind::min:
    case OpKind::max:
    case OpKind::equal:
      return {run_binary, kAnyStrides};
    case OpKind::where:
      return {run_where, kAnyStrides};
    case OpKind::softmax:
      return {run_softmax};
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
      return {run_reduce, 1u << 0};
    case OpKind::layer_norm:
      return {run_layer_norm};
    case OpKind::identity:
    case OpKind::reshape:
    case OpKind::unsqueeze:
    case OpKind::squeeze:
      return {run_moved, 1u << 0, move_reshaped};
    case OpKind::transpose:
      return {run_moved, 1u << 0, move_transposed};
    case OpKind::slice:
      return {run_moved, 1u << 0, move_sliced};
    case OpKind::split:
      return {run_moved, 1u << 0, move_split};
    case OpKind::expand:
      return {run_moved, 1u << 0, move_expanded};
    case OpKind::shape:
      return {run_shape, 1u << 0};
    case OpKind::concat:
      return {run_concat, kAnyStrides};
    case OpKind::gather:
      return {run_gather};
    case OpKind::constant_of_shape:
      return {run_constant_of_shape};
    case OpKind::range:
      return {run_range};
    case OpKind::if_else:
    case OpKind::loop:
    case OpKind::none:
      break;
  }
  return {};
}

constexpr size_t kKinds = 64;
static_assert(size_t(OpKind::loop) < kKinds);

std::array<NodeSpec, kKinds> make_table() {
  std::array<NodeSpec, kKinds> table;
  for (size_t i = 0; i <= size_t(OpKind::loop); ++i) table[i] = make_spec(OpKind(i));
  return table;
}

}  // namespace

const NodeSpec& node_spec(OpKind kind) {
  static const std::array<NodeSpec, kKinds> kTable = make_table();
  return kTable[size_t(kind)];
}

std::optional<Integers> integers(const NodeContext& node, const char* attribute, int input) {
  Integers result;
  if (const model::AttributeValue* value = attribute ? node.node().attribute(attribute) : nullptr) {
    const auto* list = std::get_if<std::vector<int64_t>>(value);
    if (list == nullptr || list->size() > result.values.size()) return {};
    for (const int64_t item : *list) result.values[size_t(result.count++)] = item;
    return result;
  }
  if (!node.has(input)) return {};
  const Tensor& tensor = node.in(input);
  const int64_t count = tensor.elements();
  if (count > int64_t(result.values.size())) return {};
  const bool known = node.known(input);
  if (!known && count != 0 && tensor.data == nullptr) return {};
  for (int64_t i = 0; i < count; ++i) {
    result.values[size_t(result.count++)] = known ? node.known_integer(input, i) : int_at(tensor, i);
  }
  return result;
}

std::optional<kernels::ElementType> element_type(DType dtype) {
  using kernels::ElementType;
  switch (dtype) {
    case DType::f32:
      return ElementType::f32;
    case DType::f64:
      return ElementType::f64;
    case DType::f16:
      return ElementType::f16;
    case DType::bf16:
      return ElementType::bf16;
    case DType::i8:
      return ElementType::i8;
    case DType::u8:
      return ElementType::u8;
    case DType::i32:
      return ElementType::i32;
    case DType::i64:
      return ElementType::i64;
    case DType::boolean:
      return ElementType::boolean;
    default:
      return {};
  }
}

Status copy_elements(NodeContext& node, const Tensor& from, const kernels::Layout& layout, std::byte* to) {
  const auto type = element_type(from.dtype);
  if (!type) return node.failed(fmt::format("elements of type {}", model::dtype_name(from.dtype)));
  const auto loop = kernels::make_loop(layout, {&from.layout, 1});
  if (!loop) return node.failed(fmt::format("shape {} doesn't broadcast", shape_text(from.shape())));
  const kernels::ElementwiseArguments arguments{*loop, *type, to, {from.data}};
  node.run(kernels::copy_call(arguments));
  return ok_status();
}

const float* floats_or_null(const NodeContext& node, int input) {
  return node.has(input) ? node.in(input).read<float>() : nullptr;
}

std::optional<Error> expect_float(const NodeContext& node, int input) {
  if (node.has(input) && !node.is_packed(input) && node.in(input).dtype == DType::f32) return {};
  return node.failed(fmt::format("input {} is {}, expected float32", input,
                                 node.has(input) ? model::dtype_name(node.in(input).dtype) : "absent"));
}

}  // namespace ompipe::exec
