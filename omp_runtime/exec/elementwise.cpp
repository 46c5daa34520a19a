#include "ompipe/kernels/elementwise.h"

#include <fmt/format.h>

#include "nodes.h"
#include "ompipe/kernels/convert.h"

namespace ompipe::exec {
namespace {

using kernels::BinaryOp;
using kernels::ElementwiseArguments;
using kernels::UnaryOp;
using model::OpKind;

UnaryOp unary_op(const model::Node& node) {
  switch (node.kind()) {
    case OpKind::sigmoid:
      return UnaryOp::sigmoid;
    case OpKind::sqrt:
      return UnaryOp::sqrt;
    case OpKind::erf:
      return UnaryOp::erf;
    case OpKind::tanh:
      return UnaryOp::tanh;
    case OpKind::relu:
      return UnaryOp::relu;
    case OpKind::neg:
      return UnaryOp::neg;
    case OpKind::gelu:
      return node.string_attribute("approximate", "none") == "tanh" ? UnaryOp::gelu_tanh : UnaryOp::gelu;
    default:
      fail_check("a unary operator", __FILE__, __LINE__);
  }
}

BinaryOp binary_op(OpKind kind) {
  switch (kind) {
    case OpKind::add:
      return BinaryOp::add;
    case OpKind::sub:
      return BinaryOp::sub;
    case OpKind::mul:
      return BinaryOp::mul;
    case OpKind::div:
      return BinaryOp::div;
    case OpKind::pow:
      return BinaryOp::pow;
    case OpKind::min:
      return BinaryOp::min;
    case OpKind::max:
      return BinaryOp::max;
    case OpKind::equal:
      return BinaryOp::equal;
    default:
      fail_check("a binary operator", __FILE__, __LINE__);
  }
}

Error unsupported(const NodeContext& node, model::DType dtype) {
  return node.failed(fmt::format("{} of {} isn't supported", node.node().op_type, model::dtype_name(dtype)));
}

// The loop over output 0 and the first `count` inputs.
Result<ElementwiseArguments> make_arguments(const NodeContext& node, int count, model::DType dtype) {
  const auto type = element_type(dtype);
  if (!type) return unsupported(node, dtype);
  ElementwiseArguments arguments;
  std::array<kernels::Layout, 3> layouts;
  for (int i = 0; i < count; ++i) {
    layouts[size_t(i)] = node.in(i).layout;
    arguments.inputs[size_t(i)] = node.in(i).data;
  }
  const auto loop = kernels::make_loop(node.out(0).layout, {layouts.data(), size_t(count)});
  if (!loop) return node.failed("inputs don't broadcast to the output");
  arguments.loop = *loop;
  arguments.type = *type;
  arguments.output = node.out(0).data;
  return arguments;
}

}  // namespace

Status run_unary(NodeContext& node) {
  const UnaryOp op = unary_op(node.node());
  const auto arguments = make_arguments(node, 1, node.in(0).dtype);
  if (!arguments) return arguments.error();
  if (!kernels::supports(op, arguments->type)) return unsupported(node, node.in(0).dtype);
  node.run(kernels::unary_call(op, *arguments, node.isa()));
  return ok_status();
}

Status run_binary(NodeContext& node) {
  const BinaryOp op = binary_op(node.node().kind());
  if (node.inputs() != 2) return node.failed(fmt::format("{} inputs, expected 2", node.inputs()));
  if (node.in(0).dtype != node.in(1).dtype) {
    return node.failed(fmt::format("inputs of {} and {}, expected the same", model::dtype_name(node.in(0).dtype),
                                   model::dtype_name(node.in(1).dtype)));
  }
  const auto arguments = make_arguments(node, 2, node.in(0).dtype);
  if (!arguments) return arguments.error();
  if (!kernels::supports(op, arguments->type)) return unsupported(node, node.in(0).dtype);
  node.run(kernels::binary_call(op, *arguments, node.isa()));
  return ok_status();
}

Status run_where(NodeContext& node) {
  if (node.in(0).dtype != model::DType::boolean) return unsupported(node, node.in(0).dtype);
  const auto arguments = make_arguments(node, 3, node.in(1).dtype);
  if (!arguments) return arguments.error();
  node.run(kernels::where_call(*arguments));
  return ok_status();
}

Status run_cast(NodeContext& node) {
  const auto from = element_type(node.in(0).dtype), to = element_type(node.out(0).dtype);
  if (!from) return unsupported(node, node.in(0).dtype);
  if (!to) return unsupported(node, node.out(0).dtype);
  const kernels::ConvertArguments arguments{*from, *to, node.in(0).data, node.out(0).data, node.in(0).elements()};
  node.run(kernels::convert_call(arguments, node.isa()));
  return ok_status();
}

}  // namespace ompipe::exec
