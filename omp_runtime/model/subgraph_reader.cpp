// Graphs that nodes hold, and the names by which nodes of all graphs find their inputs.
#include <fmt/format.h>

#include "graph_reader.h"
#include "walk.h"

namespace ompipe::model {

SubgraphId GraphReader::read_subgraph(std::string_view bytes, const std::string& name) {
  int depth = 1;
  for (int32_t scope = scope_; scopes_[size_t(scope)].parent != kNone; scope = scopes_[size_t(scope)].parent) ++depth;
  if (depth > kDeepestSubgraph) walk_.fail(name, fmt::format("subgraphs nested deeper than {}", kDeepestSubgraph));
  const auto id = SubgraphId(graph_.graphs.size());
  graph_.graphs.push_back({.name = name, .owner = kNone, .begin = 0, .end = 0, .inputs = {}, .outputs = {}});
  const int32_t around = scope_;
  scope_ = int32_t(scopes_.size());
  scopes_.push_back({.graph = id, .parent = around, .values = {}, .outputs = {}});
  const Parts parts = split(bytes);
  for (std::string_view input : parts.inputs) {
    std::string_view input_name;
    const Port port = read_port(input, &input_name);
    const ValueId value = define(input_name, ValueSource::body_input, "subgraph input");
    graph_.values[size_t(value)].dtype = port.dtype;
    graph_.graphs[size_t(id)].inputs.push_back(value);
  }
  for (std::string_view initializer : parts.initializers) read_initializer(initializer);
  for (std::string_view node : parts.nodes) read_node(node);
  for (std::string_view output : parts.outputs) {
    std::string_view output_name;
    read_port(output, &output_name);
    scopes_[size_t(scope_)].outputs.push_back(output_name);
  }
  scope_ = around;
  return id;
}

ValueId GraphReader::find_visible(std::string_view name, int32_t scope) const {
  for (; scope != kNone; scope = scopes_[size_t(scope)].parent) {
    const auto& values = scopes_[size_t(scope)].values;
    if (const auto place = values.find(name); place != values.end()) return place->second;
  }
  return kNone;
}

// Once every value of every graph is known.
void GraphReader::link() {
  const auto look_up = [&](std::string_view name, int32_t scope, const std::string& user, const char* what) {
    const ValueId id = find_visible(name, scope);
    if (id != kNone) return id;
    walk_.at = name.data();
    walk_.fail(user, fmt::format("{} '{}' is not defined", what, name));
  };
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    Node& node = graph_.nodes[i];
    for (std::string_view name : names_[i].inputs)
      node.inputs.push_back(name.empty() ? kNone : look_up(name, names_[i].scope, node.name, "input"));
  }
  for (size_t scope = 1; scope < scopes_.size(); ++scope) {
    Subgraph& graph = graph_.graphs[size_t(scopes_[scope].graph)];
    for (std::string_view name : scopes_[scope].outputs)
      graph.outputs.push_back(look_up(name, int32_t(scope), graph.name, "subgraph output"));
  }
}

}  // namespace ompipe::model
