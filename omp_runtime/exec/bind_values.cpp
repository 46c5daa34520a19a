#include <fmt/format.h>

#include <algorithm>

#include "frame_state.h"
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

// The value whose bytes a view's are.
ValueId root_of(const FrameState& state, ValueId value) {
  while (state.slots[size_t(value)].home == Home::view) value = state.slots[size_t(value)].index;
  return value;
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

Status place_output(FrameState& state, const NodeContext& node, ActionId action, int output) {
  const ValueId value = node.node().outputs[size_t(output)];
  if (!state.shapes.known(value)) {
    return Error{
        .kind = ErrorKind::bad_model,
        .phase = "bind",
        .subject = node.node().name,
        .reason = fmt::format("the shape of {} depends on the contents of an input that aren't known before the run",
                              state.model().value(value).name)};
  }
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
  } else if (!place_view(state, node, action, output)) {
    const bool small = model::is_integer(tensor.dtype) && tensor.elements() <= kSmallElements;
    if (small) {
      place_small(state, slot, tensor.bytes());
    } else {
      place_in_block(state, slot, tensor.bytes());
    }
  }
  return ok_status();
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
  if (action.settled) return ok_status();
  if (state.plan->actions[size_t(at)].on_device) return measure_on_device(state, node, at);
  const NodeSpec& spec = node_spec(node.node().kind());
  OMPIPE_CHECK(spec.execute != nullptr, node.node().op_type.c_str());
  if (Status status = spec.execute(node); !status) return status;
  if (action.workspace_bytes != 0) {
    action.workspace_block = int32_t(state.blocks.size());
    state.blocks.push_back({at, at, action.workspace_bytes, 0});
  }
  return ok_status();
}

}  // namespace

Status place_values(FrameState& state) {
  std::fill(state.slots.begin(), state.slots.end(), Slot{});
  std::fill(state.output_bytes.begin(), state.output_bytes.end(), 0);
  state.blocks.clear();
  state.small_used = state.scratch_stride = 0;
  state.predicted_ns = 0;
  place_inputs(state);
  for (ActionId action = 0; action < ActionId(state.actions.size()); ++action) {
    NodeContext node(state, action, nullptr, nullptr);
    for (int output = 0; output < node.outputs(); ++output) {
      if (!node.has_out(output)) continue;
      if (Status status = place_output(state, node, action, output); !status) return status;
    }
    settle(state, node.node(), state.actions[size_t(action)]);
    if (Status status = measure(state, node, action); !status) return status;
    state.predicted_ns += state.actions[size_t(action)].predicted_ns;
  }
  extend_lives(state);
  if (state.small_bytes.size() < state.small_used) state.small_bytes.resize(state.small_used);
  state.block_bytes = state.planner.place(state.blocks);
  place_on_device(state);
  return ok_status();
}

}  // namespace ompipe::exec
