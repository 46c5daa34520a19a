// Segments on the device: where their values lie there, and the commands that carry values over, compute, and carry
// them back.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "node_context.h"

namespace ompipe::exec {

using device::Address;
using model::ValueId;

// One product of dense float32 rows; the packed weight is input 1.
Status measure_on_device(FrameState& state, const NodeContext& node, ActionId at) {
  const Tensor& a = node.in(0);
  if (a.dtype != model::DType::f32)
    return node.failed(fmt::format("input 0 is {}, expected float32", model::dtype_name(a.dtype)));
  const int64_t columns = a.rank() == 0 ? 1 : a.dim(-1);
  if (columns != node.layout(1).spec.k) return node.failed("its first input has not K columns");
  state.actions[size_t(at)].device_rows = a.elements() / std::max<int64_t>(columns, 1);
  return ok_status();
}

void place_on_device(FrameState& state) {
  state.device_bytes = 0;
  std::map<ValueId, uint64_t> offsets;
  for (const plan::Segment& segment : state.plan->segments) {
    if (!segment.on_device) continue;
    offsets.clear();
    uint64_t used = 0, workspace = 0;
    const auto place = [&](ValueId value, const Tensor& tensor) {
      const auto [entry, fresh] = offsets.try_emplace(value, used);
      if (fresh) used += align_block(tensor.bytes());
      return entry->second;
    };
    for (ActionId at = segment.begin; at < segment.end; ++at) {
      const NodeContext node(state, at, nullptr, nullptr);
      ActionState& action = state.actions[size_t(at)];
      action.device_in = place(node.node().inputs[0], node.in(0));
      action.device_out = place(node.node().outputs[0], node.out(0));
      action.device_layout = node.layout(1);
      workspace = std::max(workspace, state.backend->workspace_bytes(action.device_layout, action.device_rows));
    }
    for (ActionId at = segment.begin; at < segment.end; ++at) state.actions[size_t(at)].device_workspace = used;
    state.device_bytes = std::max(state.device_bytes, used + align_block(workspace));
  }
}

void Frame::device_commands(plan::SegmentId id, const ObjectTable& objects, Address block,
                            std::vector<device::Command>& commands) {
  FrameState& state = *state_;
  const plan::Segment& segment = state.plan->segments[size_t(id)];
  for (const plan::Crossing& upload : segment.uploads) {
    const ActionState& action = state.actions[size_t(upload.action)];
    load_sources(state, state.plan->actions[size_t(upload.action)], action.first_operand, objects);
    const Tensor& tensor = NodeContext(state, upload.action, nullptr, nullptr).in(upload.operand);
    if (tensor.bytes() > 0)
      commands.emplace_back(device::Upload{tensor.data, block + action.device_in, tensor.bytes()});
  }
  for (ActionId at = segment.begin; at < segment.end; ++at) {
    const ActionState& action = state.actions[size_t(at)];
    if (action.device_rows == 0) continue;
    device::Product product;
    product.layout = &action.device_layout;
    product.packed = objects.on_device(state.plan->actions[size_t(at)].inputs[1].index);
    product.a = block + action.device_in;
    product.out = block + action.device_out;
    product.workspace = block + action.device_workspace;
    product.m = action.device_rows;
    commands.emplace_back(product);
  }
  for (const plan::Crossing& readback : segment.readbacks) {
    const ActionState& action = state.actions[size_t(readback.action)];
    const Tensor& tensor = NodeContext(state, readback.action, nullptr, nullptr).out(readback.operand);
    if (tensor.bytes() > 0)
      commands.emplace_back(device::Readback{block + action.device_out, tensor.data, tensor.bytes()});
  }
}

}  // namespace ompipe::exec
