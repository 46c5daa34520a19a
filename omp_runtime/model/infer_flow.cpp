#include "infer_flow.h"

#include <fmt/format.h>

#include <algorithm>

namespace ompipe::model {
namespace {

constexpr int kPasses = 3;  // with the shapes given; with what changed unknown; with no carried shape at all

// The value of a scalar, or of the one element of a tensor; unknown if it isn't followed.
Extent scalar(const TensorFact& fact) {
  return fact.contents && fact.content_count == 1 ? fact.contents[0] : unknown_extent();
}

// What both are.
TensorFact both(const TensorFact& a, const TensorFact& b) {
  TensorFact fact;
  fact.dtype = a.dtype;
  fact.has_shape = a.has_shape && b.has_shape && a.rank == b.rank;
  fact.rank = fact.has_shape ? a.rank : 0;
  for (size_t i = 0; i < fact.rank; ++i) fact.dims[i] = a.dims[i] == b.dims[i] ? a.dims[i] : unknown_extent();
  return fact;
}

// Whether less is known of the second.
bool says_less(const TensorFact& before, const TensorFact& after) {
  if (!before.has_shape) return false;
  if (!after.has_shape) return true;
  for (size_t i = 0; i < before.rank; ++i) {
    if (before.dims[i].symbol != Extent::kUnknown && !(before.dims[i] == after.dims[i])) return true;
  }
  return false;
}

bool is_scalar_of(const TensorFact& fact, DType dtype) {
  if (fact.dtype != dtype) return false;
  const Extent count = fact.count();
  return !count.known() || count.value == 1;
}

}  // namespace

LoopBounds loop_bounds(const Node& node, const Subgraph& body, const TensorFact* facts) {
  const auto given = [&](size_t i) { return node.inputs[i] != kNone; };
  const Extent limit = given(0) ? scalar(facts[node.inputs[0]]) : unknown_extent();
  const Extent first = given(1) ? scalar(facts[node.inputs[1]]) : Extent{1};
  LoopBounds bounds;
  bounds.never = (limit.known() && limit.value <= 0) || (first.known() && first.value == 0);
  bounds.starts = first.known() && first.value != 0 && (!given(0) || (limit.known() && limit.value > 0));
  // Without a condition at the start, what the body says of it is ignored.
  const Extent goes_on = given(1) ? scalar(facts[body.outputs[0]]) : Extent{1};
  bounds.trips = unknown_extent();
  if (bounds.never) bounds.trips = {0};
  if (bounds.starts && limit.known() && goes_on.known() && goes_on.value != 0) bounds.trips = limit;
  return bounds;
}

NodeId FlowInference::fail(NodeId id, std::string reason) {
  context_.fail(std::move(reason));
  return id;
}

void FlowInference::give(ValueId id, const TensorFact& fact) {
  if (id != kNone) facts_[id] = fact;
}

NodeId FlowInference::run(NodeId begin, NodeId end) {
  for (NodeId id = begin; id < end; id = after_node(id, nodes_, graphs_)) {
    const Node& node = nodes_[size_t(id)];
    NodeId wrong = kNone;
    if (node.kind() == OpKind::if_else) {
      wrong = run_if(id);
    } else if (node.kind() == OpKind::loop) {
      wrong = run_loop(id);
    } else if (!context_.run(node)) {
      wrong = id;
    }
    if (wrong != kNone) return wrong;
  }
  return kNone;
}

NodeId FlowInference::run_if(NodeId id) {
  const Node& node = nodes_[size_t(id)];
  if (!is_scalar_of(fact(node.inputs[0]), DType::boolean))
    return fail(id, fmt::format("condition is {} {}, expected one bool", dtype_name(fact(node.inputs[0]).dtype),
                                fact(node.inputs[0]).shape_text(context_.symbols())));
  const Subgraph& then = graphs_[size_t(node.graph_attribute("then_branch"))];
  const Subgraph& other = graphs_[size_t(node.graph_attribute("else_branch"))];
  for (const Subgraph* branch : {&then, &other}) {
    if (const NodeId wrong = run(branch->begin, branch->end); wrong != kNone) return wrong;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorFact &a = fact(then.outputs[i]), &b = fact(other.outputs[i]);
    if (a.dtype != b.dtype)
      return fail(id, fmt::format("output {} is {} in then_branch, {} in else_branch", i, dtype_name(a.dtype),
                                  dtype_name(b.dtype)));
    give(node.outputs[i], both(a, b));
  }
  return kNone;
}

NodeId FlowInference::run_loop(NodeId id) {
  const Node& node = nodes_[size_t(id)];
  const Subgraph& body = graphs_[size_t(node.graph_attribute("body"))];
  const size_t carried = node.inputs.size() - 2;
  if (node.inputs[0] != kNone && !is_scalar_of(fact(node.inputs[0]), DType::i64))
    return fail(id, fmt::format("trip count is {} {}, expected one int64", dtype_name(fact(node.inputs[0]).dtype),
                                fact(node.inputs[0]).shape_text(context_.symbols())));
  if (node.inputs[1] != kNone && !is_scalar_of(fact(node.inputs[1]), DType::boolean))
    return fail(id, fmt::format("condition is {} {}, expected one bool", dtype_name(fact(node.inputs[1]).dtype),
                                fact(node.inputs[1]).shape_text(context_.symbols())));
  TensorFact number, condition;
  number.dtype = DType::i64;
  condition.dtype = DType::boolean;
  number.has_shape = condition.has_shape = true;
  Extent* const holds = context_.new_contents(1);
  holds[0] = {1};  // while the body runs
  condition.contents = holds;
  condition.content_count = 1;
  give(body.inputs[0], number);
  give(body.inputs[1], condition);
  for (size_t i = 0; i < carried; ++i) {
    TensorFact given = fact(node.inputs[2 + i]);
    given.contents = nullptr;
    given.content_count = 0;
    give(body.inputs[2 + i], given);
  }
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const Value& value = values_[size_t(body.inputs[i])];
    if (value.dtype != DType::undefined && value.dtype != fact(body.inputs[i]).dtype)
      return fail(id, fmt::format("body input {} is {}, expected {}", value.name, dtype_name(value.dtype),
                                  dtype_name(fact(body.inputs[i]).dtype)));
  }
  bool changed = true;
  for (int pass = 0; changed && pass < kPasses; ++pass) {
    if (const NodeId wrong = run_body(id, body, changed, pass); wrong != kNone) return wrong;
  }
  const LoopBounds bounds = loop_bounds(node, body, facts_);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    TensorFact result = fact(i < carried ? body.inputs[2 + i] : body.outputs[1 + i]);
    result.contents = nullptr;
    result.content_count = 0;
    if (i >= carried && result.has_shape) {
      if (result.rank == kMaxRank)
        return fail(id, fmt::format("scan output {} has rank {}", i - carried, kMaxRank + 1));
      std::copy_backward(result.dims.begin(), result.dims.begin() + result.rank, result.dims.begin() + result.rank + 1);
      result.dims[0] = bounds.trips;
      ++result.rank;
      const Extent count = result.count();
      if (result.shape_known() && (!count.known() || count.value > kMaxElements))
        return fail(id, fmt::format("scan output {} of shape {} has too many elements", i - carried,
                                    result.shape_text(context_.symbols())));
    }
    give(node.outputs[i], result);
  }
  return kNone;
}

// One inference of the body; where what it hands on differs from what it was given, less is said of that.
NodeId FlowInference::run_body(NodeId id, const Subgraph& body, bool& changed, int pass) {
  if (const NodeId wrong = run(body.begin, body.end); wrong != kNone) return wrong;
  changed = false;
  if (!is_scalar_of(fact(body.outputs[0]), DType::boolean))
    return fail(id,
                fmt::format("the body's condition is {} {}, expected one bool", dtype_name(fact(body.outputs[0]).dtype),
                            fact(body.outputs[0]).shape_text(context_.symbols())));
  for (size_t i = 2; i < body.inputs.size(); ++i) {
    const TensorFact &given = fact(body.inputs[i]), &handed = fact(body.outputs[i - 1]);
    if (given.dtype != handed.dtype)
      return fail(id, fmt::format("carried value {} is {}, the body gives {}", i - 2, dtype_name(given.dtype),
                                  dtype_name(handed.dtype)));
    changed = changed || says_less(given, both(given, handed));
  }
  for (size_t i = 2; changed && i < body.inputs.size(); ++i) {
    TensorFact next = both(fact(body.inputs[i]), fact(body.outputs[i - 1]));
    if (pass + 2 == kPasses) next.has_shape = false;
    give(body.inputs[i], next);
  }
  return kNone;
}

}  // namespace ompipe::model
