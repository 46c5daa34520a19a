#include "ompipe/kernels/gather.h"

#include <fmt/format.h>

#include "nodes.h"

namespace ompipe::exec {
namespace {

Result<kernels::GatherIndices> indices_of(const NodeContext& node) {
  const Tensor& indices = node.in(1);
  const auto type = element_type(indices.dtype);
  if (type != kernels::ElementType::i32 && type != kernels::ElementType::i64) {
    return node.failed(fmt::format("indices of {}", model::dtype_name(indices.dtype)));
  }
  return kernels::GatherIndices{*type, indices.data, indices.elements()};
}

std::optional<Error> check_indices(const NodeContext& node, const kernels::GatherIndices& indices, int64_t axis_size) {
  if (node.measuring()) return {};
  const int64_t bad = kernels::find_bad_index(indices, axis_size);
  if (bad < 0) return {};
  return node.failed(fmt::format("index {} at position {} is outside the axis of {}", indices.at(bad), bad, axis_size));
}

}  // namespace

Status run_gather(NodeContext& node) {
  const Tensor& data = node.in(0);
  const auto type = element_type(data.dtype);
  if (!type) return node.failed(fmt::format("elements of {}", model::dtype_name(data.dtype)));
  const auto indices = indices_of(node);
  if (!indices) return indices.error();
  const int axis = axis_of(node.node().int_attribute("axis", 0), data.rank());
  kernels::GatherArguments arguments;
  arguments.type = *type;
  arguments.data = data.data;
  arguments.output = node.out(0).data;
  arguments.indices = *indices;
  arguments.axis_size = data.dim(axis);
  arguments.inner = 1;
  for (int i = 0; i < axis; ++i) arguments.outer *= data.dim(i);
  for (int i = axis + 1; i < data.rank(); ++i) arguments.inner *= data.dim(i);
  if (auto error = check_indices(node, arguments.indices, arguments.axis_size)) return *error;
  node.run(kernels::gather_call(arguments));
  return ok_status();
}

namespace {

// From a packed weight that a MatMulNBits shares: out of its packed form, or out of the rows that were read instead.
Status run_packed_rows(NodeContext& node) {
  const kernels::MatMulSpec& spec = node.object(0).layout.spec;
  const auto indices = indices_of(node);
  if (!indices) return indices.error();
  if (auto error = check_indices(node, *indices, spec.n)) return *error;
  const int64_t columns = node.out(0).dim(-1);
  float* const output = node.out(0).write<float>();
  if (const std::byte* nibbles = node.rows(0, 0)) {
    kernels::GatherNibbles4Arguments arguments;
    arguments.table.nibbles = reinterpret_cast<const uint8_t*>(nibbles);
    arguments.table.scales = reinterpret_cast<const float*>(node.rows(0, 1));
    if (spec.zero_points == kernels::ZeroPoints::packed) {
      arguments.table.zero_points = reinterpret_cast<const uint8_t*>(node.rows(0, 2));
    }
    arguments.output = output;
    arguments.indices = *indices;
    arguments.rows = spec.n;
    arguments.columns = columns;
    arguments.block = spec.block;
    node.run(kernels::gather_nibbles4_call(arguments));
  } else {
    const std::byte* const packed = node.packed(0);
    const kernels::PackedLayout layout = node.layout(0);
    const kernels::GatherPackedArguments arguments{&layout, packed, output, *indices, columns};
    node.run(kernels::gather_packed_call(arguments));
  }
  return ok_status();
}

}  // namespace

Status run_gather_block_quantized(NodeContext& node) {
  if (node.is_packed(0)) return run_packed_rows(node);
  const Tensor& data = node.in(0);
  const model::Node& graph_node = node.node();
  const bool rows_of_nibbles =
      data.dtype == model::DType::u8 && data.rank() == 2 && graph_node.int_attribute("bits", 4) == 4 &&
      graph_node.int_attribute("gather_axis", 0) == 0 && axis_of(graph_node.int_attribute("quantize_axis", 1), 2) == 1;
  if (!rows_of_nibbles)
    return node.failed("only uint8 rows of 4 bits, gathered by axis 0 and quantised along axis 1, are supported");
  if (auto error = expect_float(node, 2)) return *error;
  const auto indices = indices_of(node);
  if (!indices) return indices.error();
  kernels::GatherNibbles4Arguments arguments;
  arguments.table = {data.read<uint8_t>(), node.in(2).read<float>(),
                     node.has(3) ? node.in(3).read<uint8_t>() : nullptr};
  arguments.output = node.out(0).write<float>();
  arguments.indices = *indices;
  arguments.rows = data.dim(0);
  arguments.columns = node.out(0).dim(-1);
  arguments.block = graph_node.int_attribute("block_size", 128);
  if (auto error = check_indices(node, arguments.indices, arguments.rows)) return *error;
  node.run(kernels::gather_nibbles4_call(arguments));
  return ok_status();
}

}  // namespace ompipe::exec
