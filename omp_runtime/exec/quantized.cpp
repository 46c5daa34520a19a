// Dynamic int8: quantising activations, and products of int8.
#include <algorithm>

#include "nodes.h"
#include "ompipe/kernels/matmul_integer.h"
#include "ompipe/kernels/quantize.h"

namespace ompipe::exec {

Status run_matmul_integer(NodeContext& node) {
  if (!node.is_packed(1)) return node.failed("B isn't a constant matrix");
  const Tensor& a = node.in(0);
  kernels::MatMulIntegerArgs arguments;
  arguments.packed = node.packed(1);
  const kernels::PackedLayout layout = node.layout(1);
  arguments.layout = &layout;
  const kernels::MatMulSpec& spec = layout.spec;
  if (a.rank() == 0 || a.dim(-1) != spec.k) return node.failed("its first input has not K columns");
  arguments.m = a.elements() / std::max<int64_t>(spec.k, 1);
  arguments.a_signed = a.dtype == model::DType::i8;
  arguments.a = a.data;
  arguments.lda = spec.k;
  if (node.has(2)) arguments.a_zero_point = node.in(2).data;
  if (node.has(3)) {
    arguments.b_zero_points = node.in(3).data;
    arguments.b_zero_point_stride = node.in(3).elements() > 1 ? 1 : 0;
  }
  arguments.out = node.out(0).write<int32_t>();
  arguments.ldc = spec.n;
  arguments.shared_scratch = node.workspace(uint64_t(kernels::integer_scratch_bytes(layout, arguments.m)));
  node.run(kernels::matmul_integer_call(arguments));
  return ok_status();
}

namespace {

// Where an output that the graph may leave out is written.
std::byte* output_or_workspace(NodeContext& node, int output, uint64_t bytes) {
  return node.has_out(output) ? node.out(output).data : node.workspace(bytes);
}

}  // namespace

Status run_dynamic_quantize_linear(NodeContext& node) {
  if (auto error = expect_float(node, 0)) return *error;
  kernels::DynamicQuantizeArguments arguments;
  arguments.x = node.in(0).read<float>();
  arguments.count = node.in(0).elements();
  arguments.y = node.out(0).write<uint8_t>();
  arguments.scale = reinterpret_cast<float*>(output_or_workspace(node, 1, sizeof(float)));
  arguments.zero_point = reinterpret_cast<uint8_t*>(output_or_workspace(node, 2, sizeof(uint8_t)));
  arguments.shared_scratch =
      reinterpret_cast<float*>(node.workspace(uint64_t(kernels::dynamic_quantize_scratch_bytes(arguments.count))));
  node.run(kernels::dynamic_quantize_call(arguments, node.isa()));
  return ok_status();
}

}  // namespace ompipe::exec
