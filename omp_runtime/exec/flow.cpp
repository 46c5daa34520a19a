#include "flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "late.h"
#include "nodes.h"

namespace ompipe::exec {
namespace {

using model::ValueId;
using plan::Step;

constexpr size_t kCarried = 2;            // the first carried value among a Loop's inputs, and its body's
constexpr int64_t kFirstScanPasses = 16;  // that a stack of unknown height has room for at first

bool truth(const Tensor& condition) { return *condition.read<uint8_t>() != 0; }

Status copy(NodeContext& node, const Tensor& from, const Tensor& to) {
  return from.elements() == 0 ? ok_status() : copy_elements(node, from, to.layout, to.data);
}

// While measured nothing is known of a late value.
Status copy_to(const FrameState& state, NodeContext& node, const Tensor& from, ValueId to) {
  if (node.measuring() && is_late(state, to)) return ok_status();
  return copy(node, from, state.values[size_t(to)]);
}

void write_scalar(const FrameState& state, ValueId value, int64_t number) {
  const Slot& slot = state.slots[size_t(value)];
  if (slot.home == Home::none) return;  // a constant
  const Tensor& tensor = state.values[size_t(value)];
  std::memcpy(tensor.data, &number, model::dtype_bytes(tensor.dtype));  // little-endian
}

Status yield(FrameState& state, NodeContext& node) {
  const std::vector<ValueId>& outputs = node.node().outputs;
  LateState& late = state.late;
  late.needs.clear();
  for (size_t i = 0; !node.measuring() && i < outputs.size(); ++i) {
    if (!is_late(state, outputs[i])) continue;
    drop_piece(state, outputs[i]);
    late.needs.push_back({nullptr, node.in(int(i)).bytes()});
  }
  if (!take_late(state)) return ok_status();
  size_t piece = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNone) continue;
    const Tensor& from = node.in(int(i));
    if (!node.measuring() && is_late(state, outputs[i]))
      give_piece(state, outputs[i], from.shape(), late.needs[piece++]);
    if (Status status = copy_to(state, node, from, outputs[i]); !status) return status;
  }
  return ok_status();
}

// Of a stack that no pass has added to: dimensions that nobody knows are 0.
void empty_stack(FrameState& state, ValueId output) {
  Tensor& tensor = state.values[size_t(output)];
  const model::TensorFact& fact = state.shapes.fact(output);
  int64_t dims[model::kMaxRank] = {};
  for (size_t i = 1; i < fact.rank; ++i) dims[i] = fact.dims[i].known() ? fact.dims[i].value : 0;
  const size_t rank = fact.has_shape ? fact.rank : 1;
  tensor = make_tensor(tensor.dtype, {dims, rank}, nullptr);
}

// Gives the Loop's outputs. Carried ones are views of what it carries, copies, or take over its late pieces.
Status leave(FrameState& state, NodeContext& node, const plan::Action& action) {
  const model::Subgraph& body = body_of(*state.plan, action);
  const std::vector<ValueId>& outputs = node.node().outputs;
  const size_t carried = body.inputs.size() - kCarried;
  for (size_t i = 0; i < carried; ++i) {
    const ValueId output = outputs[i], input = body.inputs[kCarried + i];
    if (!node.measuring() && is_late(state, input)) {
      if (output == kNone) {
        drop_piece(state, input);
      } else {
        drop_piece(state, output);
        give_piece(state, output, state.values[size_t(input)].shape(),
                   std::exchange(state.late.pieces[size_t(input)], {}));
      }
    } else if (output != kNone && state.slots[size_t(output)].home != Home::view) {
      if (Status status = copy_to(state, node, state.values[size_t(input)], output); !status) return status;
    }
  }
  for (size_t i = carried; i < outputs.size(); ++i) {
    if (!node.measuring() && is_late(state, outputs[i]) && state.loops[size_t(action.range)].trip == 0) {
      drop_piece(state, outputs[i]);
      empty_stack(state, outputs[i]);
    }
  }
  return ok_status();
}

Status begin_pass(FrameState& state, NodeContext& node, const plan::Action& action, bool goes_on) {
  const model::Subgraph& body = body_of(*state.plan, action);
  const LoopState& loop = state.loops[size_t(action.range)];
  if (!node.measuring() && goes_on && loop.trip < loop.limit) {
    write_scalar(state, body.inputs[0], loop.trip);
    write_scalar(state, body.inputs[1], 1);
    state.chosen = 0;
    return ok_status();
  }
  state.chosen = 1;
  return leave(state, node, action);
}

Status enter(FrameState& state, NodeContext& node, const plan::Action& action) {
  const model::Subgraph& body = body_of(*state.plan, action);
  LoopState& loop = state.loops[size_t(action.range)];
  LateState& late = state.late;
  loop = {.trip = 0, .limit = INT64_MAX};
  if (!node.measuring() && node.has(0)) loop.limit = int_at(node.in(0), 0);
  late.needs.clear();
  for (size_t i = kCarried; !node.measuring() && i < body.inputs.size(); ++i) {
    if (is_late(state, body.inputs[i])) late.needs.push_back({nullptr, node.in(int(i)).bytes()});
  }
  if (!take_late(state)) return ok_status();
  size_t piece = 0;
  for (size_t i = kCarried; i < body.inputs.size(); ++i) {
    const Tensor& from = node.in(int(i));
    if (!node.measuring() && is_late(state, body.inputs[i]))
      give_piece(state, body.inputs[i], from.shape(), late.needs[piece++]);
    if (Status status = copy_to(state, node, from, body.inputs[i]); !status) return status;
  }
  return begin_pass(state, node, action, node.measuring() || !node.has(1) || truth(node.in(1)));
}

// Whether what the body hands on lies in what it was given: that must not be overwritten before all of it is copied.
bool overlaps(const FrameState& state, const plan::Operand& from, const model::Subgraph& body) {
  if (from.kind != plan::Operand::Kind::value) return false;
  return std::find(body.inputs.begin() + kCarried, body.inputs.end(), root_of(state, from.index)) != body.inputs.end();
}

// Late values first, into their new pieces: what they were before may be what another becomes. What lies in a place of
// the same Loop goes through the workspace for the same reason.
Status carry(FrameState& state, NodeContext& node, const plan::Action& action, std::span<const LatePiece> pieces) {
  const model::Subgraph& body = body_of(*state.plan, action);
  const size_t carried = body.inputs.size() - kCarried;
  const auto from = [&](size_t i) -> const Tensor& { return node.in(int(1 + i)); };
  const auto to = [&](size_t i) { return body.inputs[kCarried + i]; };
  const auto stays = [&](size_t i) { return action.inputs[1 + i].value == to(i); };
  const auto staged = [&](size_t i) { return !is_late(state, to(i)) && overlaps(state, action.inputs[1 + i], body); };
  std::vector<kernels::Layout>& layouts = state.late.layouts;
  layouts.clear();
  uint64_t staged_bytes = 0;
  for (size_t i = 0; i < carried; ++i) {
    if (stays(i)) continue;
    if (staged(i)) staged_bytes += align_block(from(i).bytes());
    if (node.measuring() || !is_late(state, to(i))) continue;
    const Tensor next = make_tensor(from(i).dtype, from(i).shape(), pieces[layouts.size()].data);
    layouts.push_back(next.layout);
    if (Status status = copy(node, from(i), next); !status) return status;
  }
  std::byte* const staging = node.workspace(staged_bytes);
  for (const bool out : {false, true}) {
    uint64_t at = 0;
    for (size_t i = 0; i < carried; ++i) {
      if (stays(i) || is_late(state, to(i))) continue;
      const Tensor& place = state.values[size_t(to(i))];
      Status status = ok_status();
      if (!staged(i)) {
        if (out) status = copy(node, from(i), place);
      } else {
        const Tensor between = make_tensor(place.dtype, place.shape(), staging ? staging + at : nullptr);
        status = out ? copy(node, between, place) : copy(node, from(i), between);
        at += align_block(place.bytes());
      }
      if (!status) return status;
    }
  }
  size_t next = 0;
  for (size_t i = 0; i < carried && next < layouts.size(); ++i) {
    if (stays(i) || !is_late(state, to(i))) continue;
    drop_piece(state, to(i));
    const kernels::Layout& layout = layouts[next];
    give_piece(state, to(i), {layout.dims.data(), size_t(layout.rank)}, pieces[next++]);
  }
  return ok_status();
}

// A stack of a known height has its place; one of unknown height moves to a piece twice as large when it is full.
Status add_to_stack(FrameState& state, NodeContext& node, const Tensor& from, ValueId output, int64_t trip,
                    LatePiece larger) {
  Tensor& all = state.values[size_t(output)];
  if (is_late(state, output)) {
    if (node.measuring()) return ok_status();
    std::array<int64_t, model::kMaxRank> dims{trip + 1};
    std::copy(from.shape().begin(), from.shape().end(), dims.begin() + 1);
    LatePiece piece = state.late.pieces[size_t(output)];
    if (larger.data != nullptr) {
      if (piece.data != nullptr) std::memcpy(larger.data, piece.data, uint64_t(trip) * from.bytes());
      drop_piece(state, output);
      piece = larger;
    }
    give_piece(state, output, {dims.data(), size_t(from.rank()) + 1}, piece);
  }
  Tensor to = make_tensor(all.dtype, all.shape().subspan(1), all.data);
  if (to.data != nullptr) to.data += uint64_t(trip) * to.bytes();
  return copy(node, from, to);
}

// The piece that a late stack needs before the pass can be added; none if it has room.
LatePiece larger_stack(const FrameState& state, const Tensor& from, ValueId output, const LoopState& loop) {
  const uint64_t slice = from.bytes(), now = state.late.pieces[size_t(output)].bytes;
  if (uint64_t(loop.trip + 1) * slice <= now) return {};
  const auto passes = uint64_t(std::min(loop.limit, std::max(2 * loop.trip, kFirstScanPasses)));
  return {nullptr, passes * slice};
}

bool same_slices(const FrameState& state, const Tensor& from, ValueId output) {
  const auto slices = state.values[size_t(output)].shape().subspan(1);
  return std::equal(slices.begin(), slices.end(), from.shape().begin(), from.shape().end());
}

// Scans first: they may be what is carried, as it was in this pass.
Status repeat(FrameState& state, NodeContext& node, const plan::Action& action) {
  const model::Subgraph& body = body_of(*state.plan, action);
  const std::vector<ValueId>& outputs = node.node().outputs;
  const size_t carried = body.inputs.size() - kCarried;
  LoopState& loop = state.loops[size_t(action.range)];
  LateState& late = state.late;
  const bool decides = node.node().inputs[1] != kNone;
  const bool goes_on = node.measuring() || !decides || truth(node.in(0));
  late.needs.clear();
  for (size_t i = 0; !node.measuring() && i < carried; ++i) {
    const bool stays = action.inputs[1 + i].value == body.inputs[kCarried + i];
    if (!stays && is_late(state, body.inputs[kCarried + i]))
      late.needs.push_back({nullptr, node.in(int(1 + i)).bytes()});
  }
  const size_t scans = late.needs.size();
  for (size_t i = carried; !node.measuring() && i < outputs.size(); ++i) {
    if (!is_late(state, outputs[i])) continue;
    const Tensor& from = node.in(int(1 + i));
    if (loop.trip > 0 && !same_slices(state, from, outputs[i])) {
      return node.failed(fmt::format("scan output {} has shape {} in pass {}, the passes before it gave a stack {}",
                                     i - carried, shape_text(from.shape()), loop.trip,
                                     shape_text(state.values[size_t(outputs[i])].shape())));
    }
    late.needs.push_back(larger_stack(state, from, outputs[i], loop));
  }
  if (!take_late(state)) return ok_status();
  size_t scan = scans;
  for (size_t i = carried; i < outputs.size(); ++i) {
    if (outputs[i] == kNone) continue;
    const bool stacks = !node.measuring() && is_late(state, outputs[i]);
    const LatePiece larger = stacks ? late.needs[scan++] : LatePiece{};
    if (Status status = add_to_stack(state, node, node.in(int(1 + i)), outputs[i], loop.trip, larger); !status)
      return status;
  }
  if (Status status = carry(state, node, action, std::span(late.needs).first(scans)); !status) return status;
  ++loop.trip;
  return begin_pass(state, node, action, goes_on);
}

}  // namespace

const model::Subgraph& body_of(const plan::PreparedExecutionPlan& plan, const plan::Action& action) {
  return plan.model->graph(plan.ranges[size_t(action.range)].graph);
}

ValueId carried_in(const FrameState& state, ActionId at, int output) {
  const plan::Action& action = state.plan->actions[size_t(at)];
  if (action.step != Step::enter) return kNone;
  const std::vector<ValueId>& inputs = body_of(*state.plan, action).inputs;
  const size_t input = kCarried + size_t(output);
  return input < inputs.size() ? inputs[input] : kNone;
}

Status execute(FrameState& state, NodeContext& node, ActionId at) {
  const plan::Action& action = state.plan->actions[size_t(at)];
  switch (action.step) {
    case Step::node: {
      const NodeSpec& spec = node_spec(node.node().kind());
      OMPIPE_CHECK(spec.execute != nullptr, node.node().op_type.c_str());
      return spec.execute(node);
    }
    case Step::branch:
      if (!node.measuring()) state.chosen = truth(node.in(0)) ? 0 : 1;
      return ok_status();
    case Step::yield:
      return yield(state, node);
    case Step::enter:
      return enter(state, node, action);
    case Step::repeat:
      return repeat(state, node, action);
  }
  return ok_status();
}

}  // namespace ompipe::exec
