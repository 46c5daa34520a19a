#include <fmt/format.h>

#include <algorithm>

#include "flow.h"
#include "frame_state.h"
#include "late.h"
#include "nodes.h"

namespace ompipe::exec {
namespace {

using model::ValueId;

// Integers of shape arithmetic live in the frame up to this many elements.
constexpr int64_t kSmallElements = 64;
constexpr uint64_t kSmallAlignment = 16;

void place_inputs(FrameState& state) {
  const auto& ports = state.model().inputs();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (state.bound[i].dtype == model::DType::undefined) continue;
    state.slots[size_t(ports[i].value)] = {.home = Home::input, .index = int32_t(i)};
    // Without elements: what is decided here holds for any of them.
    Tensor& value = state.values[size_t(ports[i].value)] = state.inputs[i];
    value.data = nullptr;
  }
}

// Makes the output a view of the node's first input, where operator, strides and consumers allow it.
bool place_view(FrameState& state, const NodeContext& node, ActionId action, int output) {
  const NodeSpec& spec = node_spec(node.node().kind());
  const plan::Operand& from = state.plan->actions[size_t(action)].inputs[0];
  const ValueId value = node.node().outputs[size_t(output)];
  if (spec.move == nullptr || from.kind != plan::Operand::Kind::value) return false;
  Moved moved;
  if (!spec.move(node, output, moved)) return false;
  if (!moved.layout.is_contiguous() && !state.takes_views[size_t(value)]) return false;
  Slot& slot = state.slots[size_t(value)];
  Tensor& tensor = state.values[size_t(value)];
  tensor.layout = moved.layout;
  slot.home = Home::view;
  slot.index = from.index;
  slot.offset = uint64_t(moved.offset) * model::dtype_bytes(tensor.dtype);
  return true;
}

void place_small(FrameState& state, Slot& slot, uint64_t bytes) {
  slot.home = Home::small;
  slot.offset = state.small_used;
  state.small_used += (bytes + kSmallAlignment - 1) / kSmallAlignment * kSmallAlignment;
}

void place_in_block(FrameState& state, Slot& slot, uint64_t bytes) {
  slot.home = Home::block;
  slot.block = int32_t(state.blocks.size());
  state.blocks.push_back({slot.first, slot.last, bytes, 0});
}

// In memory of its own.
void place_own(FrameState& state, Slot& slot, const Tensor& tensor) {
  if (model::is_integer(tensor.dtype) && tensor.elements() <= kSmallElements) {
    place_small(state, slot, tensor.bytes());
  } else {
    place_in_block(state, slot, tensor.bytes());
  }
}

bool is_present(const FrameState& state, ValueId value, size_t& cache) {
  for (cache = 0; cache < state.caches.size(); ++cache) {
    if (state.caches[cache].present == value) return true;
  }
  return false;
}

void place_cache(FrameState& state, Slot& slot, ValueId value, size_t cache) {
  slot.home = Home::cache;
  slot.index = int32_t(cache);
  state.values[size_t(value)].layout.strides = state.values[size_t(state.caches[cache].past)].layout.strides;
}

Error unknown_shape(const FrameState& state, const NodeContext& node, ValueId value) {
  return {.kind = ErrorKind::bad_model,
          .phase = "bind",
          .subject = node.node().name,
          .reason = fmt::format("the shape of {} depends on the contents of an input that aren't known before the run",
                                state.model().value(value).name)};
}

Status place_output(FrameState& state, const NodeContext& node, ActionId action, int output) {
  const ValueId value = node.node().outputs[size_t(output)];
  if (state.actions[size_t(action)].late || (node.node().is_flow() && !state.shapes.known(value))) {
    place_late(state, value);
    state.slots[size_t(value)].index = state.output_of_value[size_t(value)];
    return ok_status();
  }
  if (!state.shapes.known(value)) return unknown_shape(state, node, value);
  Slot& slot = state.slots[size_t(value)];
  slot = {.first = action, .last = action};
  Tensor& tensor = state.values[size_t(value)];
  tensor = make_tensor(state.shapes.dtype(value), state.shapes.shape(value), nullptr);
  const int32_t port = state.output_of_value[size_t(value)];
  size_t cache = 0;
  if (is_present(state, value, cache)) {
    place_cache(state, slot, value, cache);
  } else if (port != kNone && state.wanted[size_t(port)]) {
    slot.home = Home::output;
    slot.index = port;
    state.output_bytes[size_t(port)] = tensor.bytes();
  } else if (const ValueId carried = carried_in(state, action, output); carried != kNone) {
    slot.home = Home::view;
    slot.index = carried;
  } else if (!place_view(state, node, action, output)) {
    place_own(state, slot, tensor);
  }
  return ok_status();
}

// What a Loop carries has its place in the body's inputs.
void place_body_inputs(FrameState& state, ActionId at) {
  for (const ValueId value : body_of(*state.plan, state.plan->actions[size_t(at)]).inputs) {
    if (state.model().value(value).source == model::ValueSource::constant) continue;
    if (!state.shapes.known(value)) {
      place_late(state, value);
      continue;
    }
    Slot& slot = state.slots[size_t(value)];
    slot = {.first = at, .last = at};
    Tensor& tensor = state.values[size_t(value)];
    tensor = make_tensor(state.shapes.dtype(value), state.shapes.shape(value), nullptr);
    place_own(state, slot, tensor);
  }
}

// Keeps the bytes of everything that the plan still uses later.
void extend_lives(FrameState& state) {
  for (size_t i = 0; i < state.slots.size(); ++i) {
    if (state.slots[i].home == Home::none) continue;
    Slot& root = state.slots[size_t(root_of(state, ValueId(i)))];
    root.last = std::max(root.last, state.plan->lives[i].last_use);
  }
  for (const Slot& slot : state.slots) {
    if (slot.home == Home::block) state.blocks[size_t(slot.block)].last = slot.last;
  }
}

void store_integer(std::byte* to, model::DType dtype, int64_t value) {
  // Little-endian: the low bytes are the narrower type.
  std::copy_n(reinterpret_cast<const std::byte*>(&value), model::dtype_bytes(dtype), to);
}

// An action whose outputs all follow from the shapes is done now and not run.
void settle(FrameState& state, const model::Node& node, ActionState& action) {
  const auto is_settled = [&](ValueId value) {
    if (value == kNone) return true;
    const Home home = state.slots[size_t(value)].home;
    return home == Home::view || (home == Home::small && !state.shapes.contents(value).empty());
  };
  action.settled = std::all_of(node.outputs.begin(), node.outputs.end(), is_settled);
  if (!action.settled) return;
  for (const ValueId value : node.outputs) {
    if (value == kNone || state.slots[size_t(value)].home != Home::small) continue;
    const Tensor& tensor = state.values[size_t(value)];
    if (state.small_bytes.size() < state.small_used) state.small_bytes.resize(state.small_used);
    std::byte* to = state.small_bytes.data() + state.slots[size_t(value)].offset;
    const auto contents = state.shapes.contents(value);
    for (size_t i = 0; i < contents.size(); ++i) {
      store_integer(to + i * model::dtype_bytes(tensor.dtype), tensor.dtype, contents[i].value);
    }
  }
}

// Runs the execute function without elements, for what it asks of memory and for its predicted time.
Status measure(FrameState& state, NodeContext& node, ActionId at) {
  ActionState& action = state.actions[size_t(at)];
  action.predicted_ns = 0;
  action.workspace_bytes = 0;
  action.workspace_block = kNone;
  if (action.settled || action.late) return ok_status();
  if (Status status = execute(state, node, at); !status) return status;
  if (action.workspace_bytes != 0) {
    action.workspace_block = int32_t(state.blocks.size());
    state.blocks.push_back({at, at, action.workspace_bytes, 0});
  }
  return ok_status();
}

// Whether an action waits for what the run finds: a shape that If or Loop left open, or in a range whatever its
// contents decide.
bool binds_late(const FrameState& state, ActionId at, bool in_range) {
  const plan::Action& action = state.plan->actions[size_t(at)];
  if (action.step != plan::Step::node) return false;
  for (const plan::Operand& operand : action.inputs) {
    if (operand.kind == plan::Operand::Kind::value && is_late(state, operand.index)) return true;
  }
  const auto& outputs = state.model().node(action.node).outputs;
  return in_range && std::any_of(outputs.begin(), outputs.end(),
                                 [&](ValueId value) { return value != kNone && !state.shapes.known(value); });
}

// Whether an action that is not late itself hands late values on, or makes them.
bool touches_late(const FrameState& state, ActionId at) {
  const plan::Action& action = state.plan->actions[size_t(at)];
  if (action.step == plan::Step::node || action.step == plan::Step::branch) return false;
  const auto& outputs = state.model().node(action.node).outputs;
  const bool loop = action.step != plan::Step::yield;
  return std::any_of(outputs.begin(), outputs.end(), [&](ValueId value) { return is_late(state, value); }) ||
         (loop && std::any_of(body_of(*state.plan, action).inputs.begin(), body_of(*state.plan, action).inputs.end(),
                              [&](ValueId value) { return is_late(state, value); }));
}

Status place_action(FrameState& state, ActionId at, bool in_range) {
  ActionState& own = state.actions[size_t(at)];
  const plan::Step step = state.plan->actions[size_t(at)].step;
  own.settled = false;
  own.late = binds_late(state, at, in_range);
  NodeContext node(state, at, nullptr, nullptr);
  if (step == plan::Step::enter) place_body_inputs(state, at);
  for (int output = 0; output < node.outputs() && step != plan::Step::yield && step != plan::Step::repeat; ++output) {
    if (!node.has_out(output)) continue;
    if (Status status = place_output(state, node, at, output); !status) return status;
  }
  if (step == plan::Step::node && !own.late) settle(state, node.node(), own);
  if (Status status = measure(state, node, at); !status) return status;
  state.predicted_ns += own.predicted_ns;
  return ok_status();
}

Status place_segment(FrameState& state, plan::SegmentId id) {
  const plan::Segment& segment = state.plan->segments[size_t(id)];
  uint8_t& grows = state.late.grows[size_t(id)];
  for (ActionId at = segment.begin; at < segment.end; ++at) {
    if (Status status = place_action(state, at, segment.range != kNone); !status) return status;
    if (state.actions[size_t(at)].late || touches_late(state, at)) grows = 1;
  }
  // The last one moves late outputs.
  const auto end = plan::SegmentId(state.plan->segments.size());
  for (size_t choice = 0; choice < std::max<size_t>(segment.next.size(), 1); ++choice) {
    if (state.late.any && state.plan->after(id, int32_t(choice)) == end) grows = 1;
  }
  return ok_status();
}

}  // namespace

ValueId root_of(const FrameState& state, ValueId value) {
  while (state.slots[size_t(value)].home == Home::view) value = state.slots[size_t(value)].index;
  return value;
}

Status place_values(FrameState& state) {
  std::fill(state.slots.begin(), state.slots.end(), Slot{});
  std::fill(state.output_bytes.begin(), state.output_bytes.end(), 0);
  state.blocks.clear();
  state.small_used = state.scratch_stride = 0;
  state.predicted_ns = 0;
  place_inputs(state);
  state.late.any = false;
  state.late.grows.assign(state.plan->segments.size(), 0);
  for (size_t segment = 0; segment < state.plan->segments.size(); ++segment) {
    if (Status status = place_segment(state, plan::SegmentId(segment)); !status) return status;
  }
  extend_lives(state);
  if (state.small_bytes.size() < state.small_used) state.small_bytes.resize(state.small_used);
  state.block_bytes = state.planner.place(state.blocks);
  return ok_status();
}

}  // namespace ompipe::exec
