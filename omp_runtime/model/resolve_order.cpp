// The steps of resolution that put nodes in order, drop dead ones, and look at the graphs that nodes hold.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ompipe/model/resolver.h"

namespace ompipe::model {
namespace {

Error refused(const Node& node, std::string reason) {
  return {.kind = ErrorKind::bad_model, .phase = "resolve", .subject = node.name, .reason = std::move(reason)};
}

// Finds the sequence of subgraphs in one walk over nodes that stand in it already.
void place_graphs(NodeId& at, SubgraphId graph, std::vector<Node>& nodes, std::vector<Subgraph>& graphs) {
  while (at < NodeId(nodes.size()) && nodes[size_t(at)].graph == graph) {
    const NodeId owner = at++;
    for (const SubgraphId held : nodes[size_t(owner)].graphs) {
      graphs[size_t(held)].owner = owner;
      graphs[size_t(held)].begin = at;
      place_graphs(at, held, nodes, graphs);
      graphs[size_t(held)].end = at;
    }
  }
}

}  // namespace

// The nodes of `order`, which has each subgraph's nodes behind its owner, and no others. Values and subgraphs are told
// where their nodes are now.
void Resolver::keep_nodes(const std::vector<NodeId>& order) {
  std::vector<Node> kept;
  kept.reserve(order.size());
  for (NodeId id : order) kept.push_back(std::move(data_.nodes[size_t(id)]));
  data_.nodes = std::move(kept);
  for (Value& value : data_.values) value.producer = kNone;
  for (size_t i = 0; i < data_.nodes.size(); ++i) {
    for (ValueId output : data_.nodes[i].outputs) {
      if (output != kNone && data_.values[size_t(output)].source == ValueSource::node)
        data_.values[size_t(output)].producer = NodeId(i);
    }
  }
  for (Subgraph& graph : data_.graphs) graph.owner = kNone;
  NodeId at = 0;
  place_graphs(at, kNone, data_.nodes, data_.graphs);
  OMPIPE_CHECK(at == NodeId(data_.nodes.size()), "nodes of subgraphs follow their owner");
}

// The node that stands in the producer's graph and, itself or in a subgraph, needs what it produces.
NodeId Resolver::consumer_beside(NodeId user, NodeId producer) const {
  const SubgraphId graph = data_.nodes[size_t(producer)].graph;
  while (data_.nodes[size_t(user)].graph != graph) {
    const SubgraphId inner = data_.nodes[size_t(user)].graph;
    OMPIPE_CHECK(inner != kNone, "a value of a subgraph is used outside it");
    user = data_.graphs[size_t(inner)].owner;
  }
  return user;
}

Status Resolver::sort_nodes() {
  const size_t count = data_.nodes.size();
  std::vector<int32_t> waiting(count, 0);
  std::vector<std::vector<NodeId>> consumers(count);
  bool sorted = true;
  const auto depends = [&](NodeId user, ValueId value) {
    const NodeId producer = value == kNone ? kNone : data_.values[size_t(value)].producer;
    if (producer == kNone) return;
    const NodeId consumer = consumer_beside(user, producer);
    sorted = sorted && producer < consumer;
    ++waiting[size_t(consumer)];
    consumers[size_t(producer)].push_back(consumer);
  };
  for (size_t i = 0; i < count; ++i) {
    for (ValueId input : data_.nodes[i].inputs) depends(NodeId(i), input);
  }
  // What a subgraph gives from the graphs around it.
  for (const Subgraph& graph : data_.graphs) {
    for (ValueId output : graph.outputs) {
      const NodeId producer = data_.values[size_t(output)].producer;
      const bool inside =
          producer != kNone && data_.nodes[size_t(producer)].graph == SubgraphId(&graph - data_.graphs.data());
      if (!inside) depends(graph.owner, output);
    }
  }
  std::vector<NodeId> order;
  order.reserve(count);
  if (sorted) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
    keep_nodes(order);
    return ok_status();
  }
  for (size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) order.push_back(NodeId(i));
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (NodeId consumer : consumers[size_t(order[next])]) {
      if (--waiting[size_t(consumer)] == 0) order.push_back(consumer);
    }
  }
  if (order.size() != count) {
    const size_t stuck =
        size_t(std::find_if(waiting.begin(), waiting.end(), [](int32_t n) { return n > 0; }) - waiting.begin());
    return refused(data_.nodes[stuck], fmt::format("{} nodes depend on each other in a cycle", count - order.size()));
  }
  // Each graph's nodes are in order; those of a subgraph go behind its owner.
  std::vector<std::vector<NodeId>> of_graph(data_.graphs.size() + 1);
  for (NodeId id : order) of_graph[size_t(data_.nodes[size_t(id)].graph + 1)].push_back(id);
  std::vector<NodeId> sequence;
  sequence.reserve(count);
  const auto append = [&](const auto& self, SubgraphId graph) -> void {
    for (NodeId id : of_graph[size_t(graph + 1)]) {
      sequence.push_back(id);
      for (SubgraphId held : data_.nodes[size_t(id)].graphs) self(self, held);
    }
  };
  append(append, kNone);
  keep_nodes(sequence);
  return ok_status();
}

// Marks what the live nodes among [begin, end) need, the last first: a subgraph's needs are known before those of nodes
// in front of its owner.
void Resolver::mark_live(NodeId begin, NodeId end, std::vector<uint8_t>& live) const {
  const auto mark = [&](ValueId id) {
    const NodeId producer = id == kNone ? kNone : data_.values[size_t(id)].producer;
    if (producer != kNone) live[size_t(producer)] = 1;
  };
  std::vector<NodeId> own;
  for (NodeId id = begin; id < end; id = after_node(id, data_.nodes, data_.graphs)) own.push_back(id);
  for (size_t i = own.size(); i-- > 0;) {
    const Node& node = data_.nodes[size_t(own[i])];
    if (!live[size_t(own[i])]) continue;
    for (ValueId input : node.inputs) mark(input);
    for (SubgraphId held : node.graphs) {
      const Subgraph& graph = data_.graphs[size_t(held)];
      for (ValueId output : graph.outputs) mark(output);
      mark_live(graph.begin, graph.end, live);
    }
  }
}

void Resolver::remove_dead() {
  std::vector<uint8_t> live(data_.nodes.size(), 0);
  for (const Port& output : data_.outputs) {
    if (const NodeId producer = data_.values[size_t(output.value)].producer; producer != kNone)
      live[size_t(producer)] = 1;
  }
  mark_live(0, NodeId(data_.nodes.size()), live);
  std::vector<NodeId> order;
  for (size_t i = 0; i < data_.nodes.size(); ++i) {
    if (live[i]) order.push_back(NodeId(i));
  }
  if (order.size() != data_.nodes.size()) keep_nodes(order);
}

// What must hold between an If or Loop and its graphs: nothing, or what is wrong.
std::string Resolver::graph_fault(const Node& node) const {
  const bool loop = node.kind() == OpKind::loop;
  std::vector<SubgraphId> held;
  for (const AttributeSpec& attribute : node.spec->attributes) {
    held.push_back(node.graph_attribute(std::string(attribute.name).c_str()));
    if (held.back() == kNone) return fmt::format("attribute {} is missing", attribute.name);
  }
  if (held.size() != node.graphs.size()) return fmt::format("{} graphs, expected {}", node.graphs.size(), held.size());
  const size_t carried = node.inputs.size() < 2 ? 0 : node.inputs.size() - 2;
  if (loop && (node.inputs.size() < 2 || node.outputs.size() < carried))
    return fmt::format("{} inputs and {} outputs", node.inputs.size(), node.outputs.size());
  for (size_t i = 0; loop && i < carried; ++i) {
    if (node.inputs[2 + i] == kNone) return fmt::format("lacks its input {}", 2 + i);
  }
  for (SubgraphId id : held) {
    const Subgraph& graph = data_.graphs[size_t(id)];
    const size_t inputs = loop ? carried + 2 : 0, outputs = node.outputs.size() + (loop ? 1 : 0);
    if (graph.inputs.size() != inputs)
      return fmt::format("{} has {} inputs, expected {}", graph.name, graph.inputs.size(), inputs);
    if (graph.outputs.size() != outputs)
      return fmt::format("{} has {} outputs, expected {}", graph.name, graph.outputs.size(), outputs);
  }
  return "";
}

}  // namespace ompipe::model
