#include "late.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "flow.h"

namespace ompipe::exec {
namespace {

using model::ValueId;

constexpr uint64_t kLeastGrowthBytes = 64u << 10;

bool contains(const plan::PreparedExecutionPlan& plan, const plan::Range& range, ActionId action) {
  return action >= plan.segments[size_t(range.begin)].begin && action <= range.last;
}

// The actions after which a value's memory can go. One that is used last in a branch of an If that it stands outside of
// goes at the end of either branch; one that a Loop's body uses goes when the Loop ends.
std::vector<ActionId> last_actions(const plan::PreparedExecutionPlan& plan, ValueId value) {
  const plan::ValueLife& life = plan.lives[size_t(value)];
  const auto ends_of = [&](ActionId head) {
    std::vector<ActionId> ends;
    for (const plan::Range& range : plan.ranges) {
      if (range.head == head) ends.push_back(range.last);
    }
    return ends;
  };
  if (life.last_use == kNone) return {life.defined};
  for (const plan::Range& range : plan.ranges) {
    if (contains(plan, range, life.last_use) && !contains(plan, range, life.defined)) return ends_of(range.head);
  }
  return {life.last_use};
}

bool followed(const Tensor& tensor) {
  return model::is_integer(tensor.dtype) && tensor.elements() <= int64_t(model::kMaxFollowedElements) &&
         tensor.contiguous() && tensor.data != nullptr;
}

}  // namespace

bool is_late(const FrameState& state, ValueId value) {
  return value != kNone && state.slots[size_t(value)].home == Home::late;
}

void place_late(FrameState& state, ValueId value) {
  static constexpr int64_t kNothing[] = {0};
  state.slots[size_t(value)].home = Home::late;
  state.values[size_t(value)] = make_tensor(state.shapes.dtype(value), kNothing, nullptr);
  state.late.any = true;
}

void find_freed(FrameState& state) {
  const plan::PreparedExecutionPlan& plan = *state.plan;
  if (!plan.flows()) return;  // nothing is late there
  std::vector<std::vector<ValueId>> freed(plan.actions.size());
  for (size_t i = 0; i < plan.lives.size(); ++i) {
    const bool carried = state.model().values()[i].source == model::ValueSource::body_input;  // goes with the Loop
    if (carried || plan.lives[i].output || plan.lives[i].defined == kNone) continue;
    for (const ActionId action : last_actions(plan, ValueId(i))) freed[size_t(action)].push_back(ValueId(i));
  }
  for (const std::vector<ValueId>& values : freed) {
    state.late.first_freed.push_back(int32_t(state.late.freed.size()));
    state.late.freed.insert(state.late.freed.end(), values.begin(), values.end());
  }
  state.late.first_freed.push_back(int32_t(state.late.freed.size()));
}

bool take_late(FrameState& state) {
  LateState& late = state.late;
  uint64_t bytes = 0;
  bool all = true;
  for (LatePiece& need : late.needs) {
    bytes += align_block(need.bytes);
    need.data = all && need.bytes > 0 ? late.heap.take(need.bytes) : nullptr;
    all = all && (need.bytes == 0 || need.data != nullptr);
  }
  if (all) return true;
  for (const LatePiece& need : late.needs) {
    if (need.data != nullptr) late.heap.give_back(need.data, need.bytes);
  }
  late.wanted = {.output = -1, .bytes = std::max({bytes, late.heap.bytes() / 2, kLeastGrowthBytes}), .least = bytes};
  return false;
}

void give_piece(FrameState& state, ValueId value, std::span<const int64_t> shape, LatePiece piece) {
  state.late.pieces[size_t(value)] = piece;
  Tensor& tensor = state.values[size_t(value)];
  tensor = make_tensor(tensor.dtype, shape, piece.data);
}

void drop_piece(FrameState& state, ValueId value) {
  LatePiece& piece = state.late.pieces[size_t(value)];
  if (piece.data != nullptr) state.late.heap.give_back(piece.data, piece.bytes);
  piece = {};
}

Status run_late(FrameState& state, ActionId at, const ObjectTable& objects, TileRunner& runner) {
  LateState& late = state.late;
  ActionState& own = state.actions[size_t(at)];
  const plan::Action& action = state.plan->actions[size_t(at)];
  const model::Node& node = state.model().node(action.node);
  late.found.clear();
  for (const plan::Operand& operand : action.inputs) {
    if (operand.kind != plan::Operand::Kind::value) continue;
    const Tensor& tensor = state.values[size_t(operand.index)];
    late.found.push_back({operand.index, tensor.shape(), followed(tensor) ? tensor.data : nullptr});
  }
  if (Status status = state.shapes.infer(action.node, late.found); !status) return status;
  late.needs.clear();
  for (const ValueId value : node.outputs) {
    if (value == kNone) continue;
    if (!state.shapes.known(value)) {
      return Error{.kind = ErrorKind::bad_model,
                   .phase = "run",
                   .subject = node.name,
                   .reason = fmt::format("the shape of {} depends on contents that can't be followed",
                                         state.model().value(value).name)};
    }
    drop_piece(state, value);
    give_piece(state, value, state.shapes.shape(value), {});
    late.needs.push_back({nullptr, state.values[size_t(value)].bytes()});
  }
  own.predicted_ns = 0;
  own.workspace_bytes = 0;
  const uint64_t stride = std::exchange(state.scratch_stride, 0);
  NodeContext measured(state, at, nullptr, &objects);
  Status status = execute(state, measured, at);
  const uint64_t wanted_stride = std::exchange(state.scratch_stride, stride);
  if (!status) return status;
  const bool more_scratch = wanted_stride > stride;
  late.needs.push_back({nullptr, own.workspace_bytes});
  late.needs.push_back({nullptr, more_scratch ? wanted_stride * uint64_t(state.workers) : 0});
  if (!take_late(state)) return ok_status();
  size_t piece = 0;
  for (const ValueId value : node.outputs) {
    if (value != kNone) give_piece(state, value, state.shapes.shape(value), late.needs[piece++]);
  }
  const LatePiece workspace = late.needs[piece], scratch = late.needs[piece + 1];
  std::byte* const fixed_scratch = state.scratch;
  own.late_workspace = workspace.data;
  if (more_scratch) {
    state.scratch = scratch.data;
    state.scratch_stride = wanted_stride;
  }
  NodeContext context(state, at, &runner, &objects);
  status = execute(state, context, at);
  state.scratch = fixed_scratch;
  state.scratch_stride = stride;
  own.late_workspace = nullptr;
  for (const LatePiece& used : {workspace, scratch}) {
    if (used.data != nullptr) late.heap.give_back(used.data, used.bytes);
  }
  state.shapes.forget();
  return status;
}

void drop_dead(FrameState& state, ActionId at) {
  const bool again = state.plan->actions[size_t(at)].step == plan::Step::repeat && state.chosen == 0;
  if (again) return;
  const LateState& late = state.late;
  for (int32_t i = late.first_freed[size_t(at)]; i < late.first_freed[size_t(at) + 1]; ++i)
    drop_piece(state, late.freed[size_t(i)]);
}

bool move_outputs(FrameState& state) {
  const auto& ports = state.model().outputs();
  for (size_t port = 0; port < ports.size(); ++port) {
    const ValueId value = ports[port].value;
    LatePiece& piece = state.late.pieces[size_t(value)];
    if (!state.wanted[port] || !is_late(state, value) || piece.data == nullptr) continue;
    Tensor& tensor = state.values[size_t(value)];
    const HeldBytes& to = state.outputs[size_t(state.slots[size_t(value)].index)];
    if (to.bytes < tensor.bytes()) {
      state.late.wanted = {
          .output = state.slots[size_t(value)].index, .bytes = tensor.bytes(), .least = tensor.bytes()};
      return false;
    }
    std::memcpy(to.data, tensor.data, tensor.bytes());
    tensor.data = to.data;
    drop_piece(state, value);
  }
  return true;
}

void end_late(FrameState& state) {
  LateState& late = state.late;
  std::fill(late.pieces.begin(), late.pieces.end(), LatePiece{});
  late.heap.clear();
  late.wanted = {};
  late.resume = kNone;
}

}  // namespace ompipe::exec
