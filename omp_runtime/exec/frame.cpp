#include "ompipe/exec/frame.h"

#include <algorithm>
#include <utility>

#include "flow.h"
#include "late.h"
#include "nodes.h"

namespace ompipe::exec {
namespace {

using model::ValueId;
using Kind = plan::Operand::Kind;

bool takes_strides(const plan::PreparedExecutionPlan& plan, const plan::Action& action, size_t input) {
  const NodeSpec& spec = node_spec(plan.model->node(action.node).kind());
  return input < 32 && (spec.strided_inputs >> input & 1) != 0;
}

// Where a value that something points to is; a view's data follows its root's.
std::byte* data_of(const FrameState& state, const Slot& slot) {
  switch (slot.home) {
    case Home::none:
    case Home::late:
      return nullptr;
    case Home::block:
      return state.block.data + state.blocks[size_t(slot.block)].offset;
    case Home::small:
      return const_cast<std::byte*>(state.small_bytes.data()) + slot.offset;
    case Home::input:
      return state.inputs[size_t(slot.index)].data;
    case Home::output:
      return state.outputs[size_t(slot.index)].data;
    case Home::cache:
      return state.caches[size_t(slot.index)].data;
    case Home::view:
      return state.values[size_t(slot.index)].data + slot.offset;
  }
  return nullptr;
}

Owner owner_of_input(const FrameState& state, const RuntimeContext& context, int32_t input) {
  for (size_t i = 0; i < state.given.size(); ++i) {
    if (state.given[i] == input) return context.inputs[i].tensor.owner;
  }
  for (size_t i = 0; i < state.caches.size(); ++i) {
    if (state.caches[i].input == input) return context.caches[i].memory.owner;
  }
  return nullptr;
}

void load_sources(FrameState& state, const plan::Action& action, int32_t first_operand, const ObjectTable& objects) {
  for (size_t i = 0; i < action.inputs.size(); ++i) {
    const plan::Operand& operand = action.inputs[i];
    const bool overridden = operand.kind == Kind::overridable && state.slots[size_t(operand.value)].home == Home::input;
    if (operand.kind != Kind::source && (operand.kind != Kind::overridable || overridden)) continue;
    const std::byte* const rows = objects.rows(operand.index, 0);
    const std::byte* const bytes = rows ? rows : objects.bytes(operand.index) + operand.offset;
    state.sources[size_t(first_operand) + i].data = const_cast<std::byte*>(bytes);
  }
}

}  // namespace

FrameState::FrameState(std::shared_ptr<const plan::PreparedExecutionPlan> the_plan, int worker_count)
    : plan(std::move(the_plan)), workers(worker_count), plan_owner(plan), shapes(*plan->model) {
  const size_t value_count = model().values().size();
  takes_views.assign(value_count, 1);
  output_of_value.assign(value_count, kNone);
  values.resize(value_count);
  slots.resize(value_count);
  bound.resize(model().inputs().size());
  inputs.resize(model().inputs().size());
  bearing.resize(model().inputs().size());
  followed.resize(model().inputs().size() * kFollowedBytes);
  wanted.resize(model().outputs().size());
  output_bytes.resize(model().outputs().size());
  outputs.resize(model().outputs().size());
  for (size_t i = model().outputs().size(); i-- > 0;) output_of_value[size_t(model().outputs()[i].value)] = int32_t(i);
  loops.resize(plan->ranges.size());
  late.pieces.resize(value_count);
  find_freed(*this);
  for (const model::ConstantTensor& constant : model().constants()) {
    constants.push_back(make_constant(constant.dtype, constant.dims, constant.bytes.data()));
  }
  for (const plan::Action& action : plan->actions) {
    ActionState own;
    own.first_operand = int32_t(sources.size());
    actions.push_back(own);
    for (size_t i = 0; i < action.inputs.size(); ++i) {
      const plan::Operand& operand = action.inputs[i];
      sources.emplace_back();
      if (operand.kind == Kind::value && !takes_strides(*plan, action, i)) takes_views[size_t(operand.index)] = 0;
      if (operand.kind != Kind::source && operand.kind != Kind::overridable) continue;
      const model::Value& value = model().value(operand.value);
      sources.back() = make_constant(value.dtype, value.dims(), nullptr);
    }
  }
}

Frame::Frame(std::shared_ptr<const plan::PreparedExecutionPlan> plan, int workers)
    : state_(std::make_unique<FrameState>(std::move(plan), workers)) {}
Frame::~Frame() = default;

Status Frame::bind(const RuntimeContext& context) {
  FrameState& state = *state_;
  if (rebind(state, context)) return ok_status();
  state.is_bound = false;
  if (Status status = bind_inputs(state, context); !status) return status;
  if (Status status = place_values(state); !status) return status;
  state.is_bound = state.moved = true;
  return ok_status();
}

uint64_t Frame::execution_bytes() const {
  return state_->block_bytes + uint64_t(state_->workers) * state_->scratch_stride;
}

std::span<const uint64_t> Frame::output_bytes() const { return state_->output_bytes; }

double Frame::predicted_ns(plan::ActionId action) const { return state_->actions[size_t(action)].predicted_ns; }

double Frame::segment_predicted_ns(plan::SegmentId segment) const {
  const plan::Segment& range = state_->plan->segments[size_t(segment)];
  double sum = 0;
  for (ActionId action = range.begin; action < range.end; ++action) sum += predicted_ns(action);
  return sum;
}

double Frame::predicted_ns() const { return state_->predicted_ns; }

void Frame::attach(HeldBytes block, std::span<const HeldBytes> outputs) {
  FrameState& state = *state_;
  OMPIPE_CHECK(block.bytes >= execution_bytes() && outputs.size() == state.outputs.size());
  state.moved |= block.data != state.block.data;
  state.block = std::move(block);
  state.scratch = state.block.data + state.block_bytes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    OMPIPE_CHECK(outputs[i].bytes >= state.output_bytes[i]);
    state.moved |= outputs[i].data != state.outputs[i].data;
    state.outputs[i] = outputs[i];
  }
  if (!state.moved) return;
  state.moved = false;
  // Producers stand before their views only in the order of actions.
  for (const model::Port& port : state.model().inputs()) {
    state.values[size_t(port.value)].data = data_of(state, state.slots[size_t(port.value)]);
  }
  for (const plan::Action& action : state.plan->actions) {
    if (action.step == plan::Step::enter) {
      for (const ValueId value : body_of(*state.plan, action).inputs)
        state.values[size_t(value)].data = data_of(state, state.slots[size_t(value)]);
    }
    for (const ValueId value : state.model().node(action.node).outputs) {
      if (value != kNone) state.values[size_t(value)].data = data_of(state, state.slots[size_t(value)]);
    }
  }
}

Status Frame::run_segment(plan::SegmentId segment, const ObjectTable& objects, TileRunner& runner) {
  FrameState& state = *state_;
  OMPIPE_CHECK(runner.workers() <= state.workers);
  const plan::Segment& range = state.plan->segments[size_t(segment)];
  LateState& late = state.late;
  late.wanted = {};
  const ActionId first = late.resume != kNone ? std::exchange(late.resume, kNone) : range.begin;
  if (first < range.end) state.chosen = 0;
  for (ActionId at = first; at < range.end; ++at) {
    const ActionState& own = state.actions[size_t(at)];
    if (own.settled) continue;
    const plan::Action& action = state.plan->actions[size_t(at)];
    load_sources(state, action, own.first_operand, objects);
    Status status = ok_status();
    if (own.late) {
      status = run_late(state, at, objects, runner);
    } else {
      NodeContext node(state, at, &runner, &objects);
      status = execute(state, node, at);
    }
    if (!status) return status;
    if (late.wanted.bytes > 0) {
      late.resume = at;
      return ok_status();
    }
    if (late.any) drop_dead(state, at);
  }
  const bool last = state.plan->after(segment, state.chosen) == plan::SegmentId(state.plan->segments.size());
  if (late.any && last && !move_outputs(state)) late.resume = range.end;
  return ok_status();
}

const MemoryWanted& Frame::wanted() const { return state_->late.wanted; }

void Frame::grow(HeldBytes block) { state_->late.heap.add(std::move(block)); }

void Frame::give_output(int32_t output, HeldBytes bytes) { state_->outputs[size_t(output)] = std::move(bytes); }

bool Frame::may_grow(plan::SegmentId segment) const { return state_->late.grows[size_t(segment)] != 0; }

int32_t Frame::chosen() const { return state_->chosen; }

void Frame::finish(RuntimeContext& context) {
  FrameState& state = *state_;
  size_t count = 0;
  const auto& ports = state.model().outputs();
  for (size_t i = 0; i < ports.size(); ++i) {
    const size_t value = size_t(ports[i].value);
    if (!state.wanted[i] || state.slots[value].home == Home::cache) continue;
    if (context.outputs.size() <= count) context.outputs.emplace_back();
    NamedTensor& out = context.outputs[count++];
    out.name = ports[i].name;
    const model::Value& graph_value = state.model().value(ports[i].value);
    if (graph_value.source == model::ValueSource::constant) {
      out.tensor = {state.constants[size_t(graph_value.constant)], state.plan_owner};
      continue;
    }
    const Slot& slot = state.slots[value];
    out.tensor.view = state.values[value];
    out.tensor.owner =
        slot.home == Home::input ? owner_of_input(state, context, slot.index) : state.outputs[size_t(slot.index)].owner;
  }
  context.outputs.resize(count);
  for (size_t i = 0; i < state.caches.size(); ++i) {
    context.caches[i].length = state.values[size_t(state.caches[i].present)].dim(2);
  }
  let_go();
}

void Frame::let_go() {
  end_late(*state_);
  for (HeldBytes& output : state_->outputs) output.owner = nullptr;
}

void Frame::detach() {
  end_late(*state_);
  for (HeldBytes& output : state_->outputs) output = {};
  state_->block = {};
}

}  // namespace ompipe::exec
