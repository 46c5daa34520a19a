// Walks a GraphProto and those nested in it: names become values, tensors payloads, nodes keep their small attributes.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ompipe/model/reader.h"
#include "payload_table.h"

namespace ompipe::model {

struct Walk;

// Fills a ModelGraph from the main graph and the graphs that its nodes hold. All functions throw ReadFailure and
// protozero's exceptions.
class GraphReader {
 public:
  GraphReader(ModelGraph& graph, PayloadTable& payloads, Walk& walk)
      : graph_(graph), payloads_(payloads), walk_(walk) {}

  void read(std::string_view message);

 private:
  // The names of one graph. What it doesn't define it takes from the graphs around it, the nearest first: its own names
  // hide theirs.
  struct Scope {
    SubgraphId graph = kNone;  // kNone: the main graph
    int32_t parent = kNone;
    std::unordered_map<std::string_view, ValueId> values;  // keys lie in the mapped file
    std::vector<std::string_view> outputs;                 // of a subgraph
  };
  struct Parts {
    std::vector<std::string_view> nodes, initializers, inputs, outputs;
  };

  // A node on its way in: its inputs can be looked up only when every value is known.
  struct NodeRecord {
    Node node;
    std::vector<std::string_view> input_names;
    std::string_view value_tensor;  // attribute "value" of a Constant
    bool has_value_tensor = false;
  };

  Parts split(std::string_view message);
  void read_input(std::string_view message);
  void read_output(std::string_view message);
  void read_initializer(std::string_view message);
  void read_node(std::string_view message);
  void read_attribute(std::string_view message, NodeRecord& record);
  SubgraphId read_subgraph(std::string_view message, const std::string& name);  // subgraph_reader.cpp
  void link();
  ValueId find_visible(std::string_view name, int32_t scope) const;
  void keep_constant_node(NodeRecord record);
  Port read_port(std::string_view message, std::string_view* name);
  ValueId define(std::string_view name, ValueSource source, const std::string& what);
  void place_value(ValueId id, const TensorPlace& place, DType dtype, const Shape& dims);
  ValueId find(std::string_view name) const;

  ModelGraph& graph_;
  PayloadTable& payloads_;
  Walk& walk_;
  std::vector<Scope> scopes_;
  int32_t scope_ = 0;  // of the graph that is being read
  // By NodeId, until every value is known.
  struct Names {
    std::vector<std::string_view> inputs;
    int32_t scope = 0;
  };
  std::vector<Names> names_;
};

}  // namespace ompipe::model
