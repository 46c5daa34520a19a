// Shape and type inference over a sequence of nodes, with the graphs that If and Loop hold.
#pragma once

#include <span>
#include <vector>

#include "ompipe/model/infer.h"

namespace ompipe::model {

// What is true of every pass: a Loop's body is inferred until what it hands on agrees with what it was given,
// dimensions that change from pass to pass being unknown. Where the branches of an If differ, its outputs' dimensions
// are unknown.
class FlowInference {
 public:
  // The context writes to `facts`; everything outlives this.
  FlowInference(InferContext& context, TensorFact* facts, const std::vector<Node>& nodes,
                const std::vector<Subgraph>& graphs, const std::vector<Value>& values)
      : context_(context), facts_(facts), nodes_(nodes), graphs_(graphs), values_(values) {}

  // Of the nodes [begin, end), which is a whole graph's range. The node that failed (the context has the reason), or
  // kNone.
  NodeId run(NodeId begin, NodeId end);

 private:
  NodeId run_if(NodeId id);
  NodeId run_loop(NodeId id);
  NodeId run_body(NodeId id, const Subgraph& body, bool& changed, int pass);
  NodeId fail(NodeId id, std::string reason);
  void give(ValueId id, const TensorFact& fact);
  const TensorFact& fact(ValueId id) const { return facts_[id]; }

  InferContext& context_;
  TensorFact* const facts_;
  const std::vector<Node>& nodes_;
  const std::vector<Subgraph>& graphs_;
  const std::vector<Value>& values_;
};

// What is known of a Loop before it runs.
struct LoopBounds {
  bool starts = false;  // its body runs once at least
  bool never = false;   // it doesn't run
  Extent trips;         // known only where nothing but the trip count ends it
};
LoopBounds loop_bounds(const Node& node, const Subgraph& body, const TensorFact* facts);

}  // namespace ompipe::model
