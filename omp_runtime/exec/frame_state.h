// What a frame keeps: tables that follow from the plan, and what one bind made of them.
#pragma once

#include <memory>
#include <vector>

#include "late_heap.h"
#include "memory_plan.h"
#include "ompipe/exec/frame.h"
#include "ompipe/model/shape_binder.h"

namespace ompipe::exec {

using plan::ActionId;
using plan::kNone;

// Where the elements of a value lie.
enum class Home : uint8_t {
  none,    // not fed, or no output of a node that runs
  block,   // `offset` in the execution block
  small,   // `offset` in FrameState::small_bytes: integers of shape arithmetic
  input,   // caller's memory; `index` is the graph input
  output,  // `index` is the graph output whose allocation it has
  cache,   // a bound KV-cache; `index` is into FrameState::caches
  view,    // of the value `index`, `offset` bytes from its first element
  late,    // in a piece of its own, made when the run has found its shape; `index` is the graph output that it is
};

struct Slot {
  Home home = Home::none;
  int32_t index = kNone;
  uint64_t offset = 0;
  ActionId first = 0, last = 0;  // when its bytes must stay, views of it included
  int32_t block = kNone;         // index into FrameState::blocks
};

struct ActionState {
  int32_t first_operand = 0;  // of its inputs, in FrameState::sources
  bool settled = false;       // its outputs are known from the shapes and already written
  double predicted_ns = 0;
  int32_t workspace_block = kNone;
  uint64_t workspace_bytes = 0;
  bool late = false;                    // bound as the run comes to it
  std::byte* late_workspace = nullptr;  // of a late action while it runs
  // On the device: where its operands lie in the block there, and the rows and layout of its product, which commands
  // refer to.
  uint64_t device_in = 0, device_out = 0, device_workspace = 0;
  int64_t device_rows = 0;
  kernels::PackedLayout device_layout;
};

// One bound KV-cache: its capacity and length are the view of the graph input `input`, capacity by its strides.
struct Cache {
  std::byte* data = nullptr;
  model::ValueId past = kNone, present = kNone;
  int32_t input = kNone, output = kNone;  // graph input and output
  int64_t batch = 0, heads = 0, capacity = 0, head_size = 0, length = 0;
  uint64_t needed_bytes = 0;
};

// A Loop while it runs.
struct LoopState {
  int64_t trip = 0;   // the pass under way, from 0
  int64_t limit = 0;  // passes at most; INT64_MAX: no limit
};

struct LatePiece {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

// What shapes that only the run can tell need (late.h).
struct LateState {
  bool any = false;               // some value is late
  std::vector<uint8_t> grows;     // by segment: whether it may want memory
  std::vector<LatePiece> pieces;  // by value
  LateHeap heap;
  MemoryWanted wanted;
  ActionId resume = kNone;  // where the segment under way goes on once it has that
  // By action: the values in `freed` from its entry here to the next one are needed by nobody after it.
  std::vector<int32_t> first_freed;
  std::vector<model::ValueId> freed;
  // Scratch.
  std::vector<LatePiece> needs;
  std::vector<model::FoundValue> found;
  std::vector<kernels::Layout> layouts;
};

// Whether a followed input's contents bear on shapes, on memory or on what is settled: asked when they first change.
enum class Bearing : uint8_t { unasked, none, some };

struct FrameState {
  FrameState(std::shared_ptr<const plan::PreparedExecutionPlan> plan, int workers, const device::Backend* backend);

  const model::ResolvedModel& model() const { return *plan->model; }
  std::byte* workspace(const ActionState& action) const;

  // From the plan.
  const std::shared_ptr<const plan::PreparedExecutionPlan> plan;
  const int workers;
  const device::Backend* const backend;
  std::vector<uint8_t> takes_views;      // by value: every consumer takes strides
  std::vector<int32_t> output_of_value;  // by value: its first graph output
  std::vector<Tensor> constants;         // by index into the model's constants
  std::vector<Tensor> sources;           // by operand: of source-form payloads; data is set while the node runs
  const Owner plan_owner;                // of outputs that are constants
  plan::SegmentId last_on_device = 0;    // from here on all segments are on the device
  std::vector<ActionState> actions;

  // From bind.
  model::ShapeBinder shapes;
  std::vector<model::BoundInput> bound;  // by graph input
  std::vector<Tensor> inputs;            // by graph input; the context keeps the bytes
  std::vector<Cache> caches;
  std::vector<uint8_t> wanted;  // by graph output
  // What makes the next bind a matter of addresses (rebind.cpp).
  bool is_bound = false;            // the last bind succeeded
  std::vector<int32_t> given;       // graph input of each tensor of the context
  std::vector<int32_t> asked;       // graph output of each name in the context's `wanted`
  std::vector<Bearing> bearing;     // by graph input
  std::vector<std::byte> followed;  // by graph input, kFollowedBytes each: the contents bound
  bool moved = false;               // addresses have changed since attach
  std::vector<Tensor> values;       // by value
  std::vector<Slot> slots;          // by value
  std::vector<Block> blocks;
  std::vector<uint64_t> output_bytes;  // by graph output
  std::vector<std::byte> small_bytes;
  uint64_t small_used = 0;
  MemoryPlanner planner;
  uint64_t block_bytes = 0;     // activations and workspaces
  uint64_t scratch_stride = 0;  // of one worker
  uint64_t device_bytes = 0;    // of the block on the device
  double predicted_ns = 0;      // of all actions

  // While it runs.
  int32_t chosen = 0;            // by the last segment: which of its successors comes
  std::vector<LoopState> loops;  // by range
  LateState late;

  // From attach.
  HeldBytes block;
  std::byte* scratch = nullptr;    // of all workers
  std::vector<HeldBytes> outputs;  // by graph output
};

// Of one graph input's contents in FrameState::followed.
inline constexpr size_t kFollowedBytes = model::kMaxFollowedElements * sizeof(int64_t);

// Takes over the addresses of a context that differs from the last one in nothing else that matters; false: it does,
// nothing has changed (rebind.cpp). Allocates nothing.
bool rebind(FrameState& state, const RuntimeContext& context);
// Checks the caller's tensors and caches and hands them to the shape binder (bind_inputs.cpp).
Status bind_inputs(FrameState& state, const RuntimeContext& context);
// The value whose bytes a view's are.
model::ValueId root_of(const FrameState& state, model::ValueId value);
// Decides for every value where it lives and what every node needs while it runs (bind_values.cpp).
Status place_values(FrameState& state);
// Points the action's constant operands to where their objects lie (frame.cpp).
void load_sources(FrameState& state, const plan::Action& action, int32_t first_operand, const ObjectTable& objects);
// Checks the product of an action on the device, by its shapes, as measuring does for one on the CPU (on_device.cpp).
Status measure_on_device(FrameState& state, const class NodeContext& node, ActionId action);
// Where the values of each segment on the device lie there, one segment at a time in the same block (on_device.cpp).
void place_on_device(FrameState& state);

}  // namespace ompipe::exec
