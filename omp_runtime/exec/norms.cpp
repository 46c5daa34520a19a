#include "nodes.h"
#include "ompipe/kernels/norm.h"

namespace ompipe::exec {
namespace {

int64_t rows_of(const Tensor& tensor) { return tensor.dim(-1) == 0 ? 0 : tensor.elements() / tensor.dim(-1); }

float* out_or_null(const NodeContext& node, int output) {
  return node.has_out(output) ? node.out(output).write<float>() : nullptr;
}

// The normalised axes must be the last one: kernels know rows.
std::optional<Error> expect_last_axis(const NodeContext& node) {
  const int rank = node.in(0).rank();
  const int64_t axis = node.node().int_attribute("axis", -1);
  if (axis == -1 || axis == rank - 1) return {};
  return node.failed("normalises over axis " + std::to_string(axis) + ", expected the last");
}

}  // namespace

Status run_simplified_layer_norm(NodeContext& node) {
  for (const int input : {0, 1}) {
    if (auto error = expect_float(node, input)) return *error;
  }
  if (auto error = expect_last_axis(node)) return *error;
  if (node.has_out(1)) return node.failed("the inverse deviation as an output isn't supported");
  kernels::RmsNormArguments arguments;
  arguments.x = node.in(0).read<float>();
  arguments.gain = node.in(1).read<float>();
  arguments.y = node.out(0).write<float>();
  arguments.rows = rows_of(node.in(0));
  arguments.columns = node.in(0).dim(-1);
  arguments.epsilon = node.node().float_attribute("epsilon", 1e-5f);
  node.run(kernels::rms_norm_call(arguments, node.isa()));
  return ok_status();
}

Status run_skip_simplified_layer_norm(NodeContext& node) {
  for (const int input : {0, 1, 2}) {
    if (auto error = expect_float(node, input)) return *error;
  }
  if (node.has_out(1) || node.has_out(2)) return node.failed("mean and inverse deviation as outputs aren't supported");
  if (node.in(0).elements() != node.in(1).elements()) return node.failed("a skip of another shape isn't supported");
  kernels::RmsNormArguments arguments;
  arguments.x = node.in(0).read<float>();
  arguments.skip = node.in(1).read<float>();
  arguments.gain = node.in(2).read<float>();
  arguments.bias = floats_or_null(node, 3);
  arguments.y = node.out(0).write<float>();
  arguments.sum = out_or_null(node, 3);
  arguments.rows = rows_of(node.in(0));
  arguments.columns = node.in(0).dim(-1);
  arguments.epsilon = node.node().float_attribute("epsilon", 1e-12f);
  node.run(kernels::rms_norm_call(arguments, node.isa()));
  return ok_status();
}

Status run_layer_norm(NodeContext& node) {
  for (const int input : {0, 1}) {
    if (auto error = expect_float(node, input)) return *error;
  }
  if (auto error = expect_last_axis(node)) return *error;
  if (node.has_out(1) || node.has_out(2)) return node.failed("mean and inverse deviation as outputs aren't supported");
  kernels::LayerNormArguments arguments;
  arguments.x = node.in(0).read<float>();
  arguments.gain = node.in(1).read<float>();
  arguments.bias = floats_or_null(node, 2);
  arguments.y = node.out(0).write<float>();
  arguments.rows = rows_of(node.in(0));
  arguments.columns = node.in(0).dim(-1);
  arguments.epsilon = node.node().float_attribute("epsilon", 1e-5f);
  node.run(kernels::layer_norm_call(arguments, node.isa()));
  return ok_status();
}

}  // namespace ompipe::exec
