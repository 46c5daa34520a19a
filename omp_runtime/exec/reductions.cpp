#include <fmt/format.h>

#include <algorithm>

#include "nodes.h"
#include "ompipe/kernels/reduce.h"
#include "ompipe/kernels/softmax.h"

namespace ompipe::exec {

Status run_softmax(NodeContext& node) {
  if (auto error = expect_float(node, 0)) return *error;
  const Tensor& x = node.in(0);
  // Before opset 13 everything from the axis on is one group, and the axis is 1 by default.
  const bool flattens = node.node().opset < 13;
  const int axis = axis_of(node.node().int_attribute("axis", flattens ? 1 : -1), x.rank());
  kernels::SoftmaxArguments arguments;
  arguments.x = x.read<float>();
  arguments.y = node.out(0).write<float>();
  arguments.outer = 1;
  arguments.axis = flattens ? 1 : x.dim(axis);
  for (int i = 0; i < axis; ++i) arguments.outer *= x.dim(i);
  for (int i = axis + (flattens ? 0 : 1); i < x.rank(); ++i) (flattens ? arguments.axis : arguments.inner) *= x.dim(i);
  node.run(kernels::softmax_call(arguments, node.isa()));
  return ok_status();
}

Status run_reduce(NodeContext& node) {
  const Tensor& x = node.in(0);
  const auto type = element_type(x.dtype);
  const bool supported =
      type == kernels::ElementType::f32 || type == kernels::ElementType::i32 || type == kernels::ElementType::i64;
  if (!supported)
    return node.failed(fmt::format("{} of {} isn't supported", node.node().op_type, model::dtype_name(x.dtype)));
  const auto axes = integers(node, "axes", 1);
  if (!axes && node.has(1)) return node.failed("its axes must be known before the run");
  if ((!axes || axes->count == 0) && node.node().int_attribute("noop_with_empty_axes", 0) != 0) {
    return copy_elements(node, x, node.out(0).layout, node.out(0).data);
  }
  const bool mean = node.node().kind() == model::OpKind::reduce_mean;
  auto arguments = kernels::make_reduce(mean ? kernels::ReduceOp::mean : kernels::ReduceOp::sum, *type, x.layout,
                                        axes ? axes->span() : std::span<const int64_t>());
  if (!arguments) return node.failed("axes that the input doesn't have");
  arguments->x = x.data;
  arguments->y = node.out(0).data;
  node.run(kernels::reduce_call(*arguments, node.isa()));
  return ok_status();
}

}  // namespace ompipe::exec
