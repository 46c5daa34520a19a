// The view that a node's execute function has of its operands, memory and tiles, while it runs and while it is
// measured.
#pragma once

#include <string>

#include "frame_state.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::exec {

// Execute functions run twice. At bind they are *measured*: operands have shapes but no elements, workspace() returns
// null and run() only records what the kernel needs; functions whose work needs the elements return early. Later they
// run.
class NodeContext {
 public:
  // Measures when `runner` is null.
  NodeContext(FrameState& state, ActionId action, TileRunner* runner, const ObjectTable* objects);

  const model::Node& node() const { return node_; }
  kernels::Isa isa() const { return state_.plan->options.isa; }
  bool measuring() const { return runner_ == nullptr; }

  int inputs() const { return int(action_.inputs.size()); }
  int outputs() const { return int(node_.outputs.size()); }
  bool has(int input) const;
  const Tensor& in(int input) const;  // must be there, and not be packed
  bool has_out(int output) const;
  const Tensor& out(int output) const;  // must be there
  bool out_is_view(int output) const;   // of the first input: there is nothing to write

  // A packed operand: its object, its bytes (null while measuring), and the layout in which they are, at this node's
  // accuracy level. That is asked for after the bytes (ObjectTable::narrow), and only where the operand is there as a
  // whole. While measuring it is of the object's own form: scratch and workspaces are the same for its narrow one.
  bool is_packed(int input) const;
  const plan::PreparedObject& object(int input) const;
  const std::byte* packed(int input) const;
  kernels::PackedLayout layout(int input) const;
  // Where that source of a packed operand lies by rows; null when the operand is there as a whole, or while measuring.
  const std::byte* rows(int input, size_t source) const;

  // The i-th element of an integer operand, from what bind knows; `known` tells whether there is one.
  bool known(int input) const;
  int64_t known_integer(int input, int64_t index) const;

  // The next `bytes` of the node's own workspace, at 64; null while measuring or for 0 bytes. Contents are arbitrary.
  std::byte* workspace(uint64_t bytes);
  // Runs all tiles of all phases: here when they are little work, else through the runner.
  void run(const kernels::TiledCall& call);

  Error failed(std::string reason) const;

 private:
  const plan::Operand& operand(int input) const { return action_.inputs[size_t(input)]; }

  FrameState& state_;
  ActionState& own_;
  const plan::Action& action_;
  const model::Node& node_;
  TileRunner* const runner_;
  const ObjectTable* const objects_;
  uint64_t workspace_used_ = 0;
};

}  // namespace ompipe::exec
