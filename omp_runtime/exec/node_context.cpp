#include "node_context.h"

#include <algorithm>
#include <climits>

#include "ompipe/plan/accuracy_level.h"

namespace ompipe::exec {
namespace {

using Kind = plan::Operand::Kind;

// Below this a kernel isn't worth the runner's bookkeeping, about 1 us with a helper that spins. Waking one costs far
// more (design.md: 27 us).
constexpr double kInlineNs = 5'000;

struct TileJob {
  const kernels::TiledCall* call;
  int phase;
  std::byte* scratch;
  uint64_t scratch_stride;
};

void run_tile(void* arg, int tile, int worker) {
  const TileJob& job = *static_cast<const TileJob*>(arg);
  std::byte* scratch =
      job.call->tile_scratch_bytes == 0 ? nullptr : job.scratch + uint64_t(worker) * job.scratch_stride;
  job.call->run(job.phase, tile, scratch);
}

}  // namespace

NodeContext::NodeContext(FrameState& state, ActionId action, TileRunner* runner, const ObjectTable* objects)
    : state_(state),
      own_(state.actions[size_t(action)]),
      action_(state.plan->actions[size_t(action)]),
      node_(state.model().node(action_.node)),
      runner_(runner),
      objects_(objects) {}

bool NodeContext::has(int input) const { return input >= 0 && input < inputs() && operand(input).kind != Kind::absent; }

const Tensor& NodeContext::in(int input) const {
  const plan::Operand& from = operand(input);
  switch (from.kind) {
    case Kind::value:
      return state_.values[size_t(from.index)];
    case Kind::constant:
      return state_.constants[size_t(from.index)];
    case Kind::overridable:
      if (state_.slots[size_t(from.value)].home == Home::input) return state_.values[size_t(from.value)];
      [[fallthrough]];
    case Kind::source:
      return state_.sources[size_t(own_.first_operand + input)];
    case Kind::absent:
    case Kind::packed:
      break;
  }
  fail_check("an operand with elements", __FILE__, __LINE__, node_.name.c_str());
}

bool NodeContext::has_out(int output) const { return output < outputs() && node_.outputs[size_t(output)] != kNone; }

const Tensor& NodeContext::out(int output) const {
  OMPIPE_CHECK(has_out(output));
  return state_.values[size_t(node_.outputs[size_t(output)])];
}

bool NodeContext::out_is_view(int output) const {
  return state_.slots[size_t(node_.outputs[size_t(output)])].home == Home::view;
}

bool NodeContext::is_packed(int input) const { return input < inputs() && operand(input).kind == Kind::packed; }

const plan::PreparedObject& NodeContext::object(int input) const {
  OMPIPE_CHECK(is_packed(input));
  return state_.plan->objects[size_t(operand(input).index)];
}

const std::byte* NodeContext::packed(int input) const {
  OMPIPE_CHECK(is_packed(input));
  return measuring() ? nullptr : objects_->bytes(operand(input).index);
}

kernels::PackedLayout NodeContext::layout(int input) const {
  const plan::PreparedObject& packed = object(input);
  const bool narrow = !measuring() && objects_->narrow(operand(input).index);
  kernels::PackedLayout layout = narrow ? *packed.narrow : packed.layout;
  layout.spec.accuracy_level = plan::accuracy_level(node_);
  return layout;
}

const std::byte* NodeContext::rows(int input, size_t source) const {
  OMPIPE_CHECK(is_packed(input));
  return measuring() ? nullptr : objects_->rows(operand(input).index, source);
}

bool NodeContext::known(int input) const {
  const plan::Operand& from = operand(input);
  if (from.kind == Kind::constant) return true;
  if (from.kind != Kind::value || state_.shapes.contents(from.index).empty()) return false;
  const Slot& slot = state_.slots[size_t(from.index)];
  if (slot.home != Home::input) return true;
  // Of an input the numbers are its elements, which a later context may change. What is measured by them is bound anew.
  if (measuring()) state_.bearing[size_t(slot.index)] = Bearing::some;
  return measuring();
}

int64_t NodeContext::known_integer(int input, int64_t index) const {
  const plan::Operand& from = operand(input);
  if (from.kind == Kind::constant) return int_at(in(input), index);
  return state_.shapes.contents(from.index)[size_t(index)].value;
}

std::byte* NodeContext::workspace(uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const uint64_t at = workspace_used_;
  workspace_used_ += align_block(bytes);
  if (measuring()) {
    own_.workspace_bytes = std::max(own_.workspace_bytes, workspace_used_);
    return nullptr;
  }
  OMPIPE_CHECK(workspace_used_ <= own_.workspace_bytes, node_.name.c_str());
  if (own_.late_workspace != nullptr) return own_.late_workspace + at;
  return state_.block.data + state_.blocks[size_t(own_.workspace_block)].offset + at;
}

void NodeContext::run(const kernels::TiledCall& call) {
  if (measuring()) {
    own_.predicted_ns += call.predicted_ns();
    state_.scratch_stride = std::max(state_.scratch_stride, align_block(call.tile_scratch_bytes));
    return;
  }
  OMPIPE_CHECK(align_block(call.tile_scratch_bytes) <= state_.scratch_stride, node_.name.c_str());
  TileJob job{&call, 0, state_.scratch, state_.scratch_stride};
  for (job.phase = 0; job.phase < call.phase_count; ++job.phase) {
    const int64_t tiles = call.tile_counts[size_t(job.phase)];
    OMPIPE_CHECK(tiles <= INT_MAX);
    const double predicted_ns = call.phase_ns[size_t(job.phase)];
    if (tiles > 1 && predicted_ns > kInlineNs) {
      runner_->run(int(tiles), run_tile, &job, predicted_ns);
    } else {
      for (int64_t tile = 0; tile < tiles; ++tile) run_tile(&job, int(tile), runner_->worker());
    }
  }
}

Error NodeContext::failed(std::string reason) const {
  return {.kind = ErrorKind::bad_model,
          .phase = measuring() && !own_.late ? "bind" : "run",
          .subject = node_.name,
          .reason = std::move(reason)};
}

}  // namespace ompipe::exec
