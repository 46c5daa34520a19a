#include <algorithm>

#include "nodes.h"

namespace ompipe::exec {

bool move_reshaped(const NodeContext& node, int output, Moved& moved) {
  if (!node.in(0).contiguous()) return false;
  moved.layout = node.out(output).layout;
  return true;
}

bool move_transposed(const NodeContext& node, int, Moved& moved) {
  const kernels::Layout& from = node.in(0).layout;
  const auto permutation = integers(node, "perm", -1);
  moved.layout.rank = from.rank;
  for (int i = 0; i < from.rank; ++i) {
    const size_t source = size_t(permutation ? permutation->values[size_t(i)] : from.rank - 1 - i);
    moved.layout.dims[size_t(i)] = from.dims[source];
    moved.layout.strides[size_t(i)] = from.strides[source];
  }
  return true;
}

bool move_sliced(const NodeContext& node, int output, Moved& moved) {
  const kernels::Layout& from = node.in(0).layout;
  const auto starts = integers(node, "starts", 1), axes = integers(node, "axes", 3), steps = integers(node, "steps", 4);
  if (!starts) return false;
  moved.layout = from;
  for (int i = 0; i < starts->count; ++i) {
    const size_t axis = size_t(axis_of(axes ? axes->values[size_t(i)] : i, from.rank));
    const int64_t size = from.dims[axis], step = steps ? steps->values[size_t(i)] : 1;
    int64_t start = starts->values[size_t(i)];
    if (start < 0) start += size;
    start = std::clamp<int64_t>(start, 0, step < 0 ? std::max<int64_t>(size - 1, 0) : size);
    const int64_t left = node.out(output).layout.dims[axis];
    if (left != 0) moved.offset += start * from.strides[axis];
    moved.layout.dims[axis] = left;
    moved.layout.strides[axis] = from.strides[axis] * step;
  }
  return true;
}

bool move_split(const NodeContext& node, int output, Moved& moved) {
  const kernels::Layout& from = node.in(0).layout;
  const size_t axis = size_t(axis_of(node.node().int_attribute("axis", 0), from.rank));
  moved.layout = from;
  moved.layout.dims[axis] = node.out(output).layout.dims[axis];
  // The parts before this one, as bind knows them: every output of a Split has a shape, even an absent one's size is
  // known by the rest.
  for (int i = 0; i < output; ++i) {
    if (!node.has_out(i)) return false;
    moved.offset += node.out(i).layout.dims[axis] * from.strides[axis];
  }
  return true;
}

bool move_expanded(const NodeContext& node, int output, Moved& moved) {
  const kernels::Layout& from = node.in(0).layout;
  moved.layout = node.out(output).layout;
  for (int i = 0; i < moved.layout.rank; ++i) {
    const int source = i - (moved.layout.rank - from.rank);
    const bool repeated = source < 0 || from.dims[size_t(source)] == 1;
    moved.layout.strides[size_t(i)] = repeated ? 0 : from.strides[size_t(source)];
  }
  return true;
}

Status run_moved(NodeContext& node) {
  const NodeSpec& spec = node_spec(node.node().kind());
  for (int output = 0; output < node.outputs(); ++output) {
    if (!node.has_out(output) || node.out_is_view(output)) continue;
    Tensor from = node.in(0);
    Moved moved;
    if (spec.move(node, output, moved)) {
      from.layout = moved.layout;
      if (from.data != nullptr) from.data += moved.offset * int64_t(model::dtype_bytes(from.dtype));
      if (Status status = copy_elements(node, from, node.out(output).layout, node.out(output).data); !status) {
        return status;
      }
      continue;
    }
    if (spec.move != move_reshaped) return node.failed("its operands must be known before the run");
    // A reshape of strided elements keeps their row-major order: the output is written in the input's shape.
    const auto dense = kernels::contiguous_layout(from.shape());
    if (Status status = copy_elements(node, from, *dense, node.out(output).data); !status) return status;
  }
  return ok_status();
}

Status run_concat(NodeContext& node) {
  const Tensor& out = node.out(0);
  const size_t axis = size_t(axis_of(node.node().int_attribute("axis", 0), out.rank()));
  const int64_t element = int64_t(model::dtype_bytes(out.dtype));
  int64_t before = 0;
  for (int i = 0; i < node.inputs(); ++i) {
    const Tensor& part = node.in(i);
    kernels::Layout place = out.layout;
    place.dims[axis] = part.layout.dims[axis];
    std::byte* to = out.data == nullptr ? nullptr : out.data + before * out.layout.strides[axis] * element;
    before += place.dims[axis];
    if (part.elements() == 0) continue;
    if (Status status = copy_elements(node, part, place, to); !status) return status;
  }
  return ok_status();
}

}  // namespace ompipe::exec
