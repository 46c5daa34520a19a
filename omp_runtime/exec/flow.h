// The actions of If and Loop: choosing, and handing values from one graph to the other.
#pragma once

#include "node_context.h"

namespace ompipe::exec {

// The body that an enter or repeat belongs to, or the branch that a yield ends.
const model::Subgraph& body_of(const plan::PreparedExecutionPlan& plan, const plan::Action& action);

// For an output of an enter: the body's input that carries it; kNone: a scan output, or no enter.
model::ValueId carried_in(const FrameState& state, ActionId action, int output);

// Measures or runs any action.
Status execute(FrameState& state, NodeContext& node, ActionId at);

}  // namespace ompipe::exec
