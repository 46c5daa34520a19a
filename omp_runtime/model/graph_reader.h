// Walks a GraphProto: names become values, tensors become payloads, nodes keep their small attributes.
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

// Fills a ModelGraph from the main graph. All functions throw ReadFailure and protozero's exceptions.
class GraphReader {
 public:
  GraphReader(ModelGraph& graph, PayloadTable& payloads, Walk& walk)
      : graph_(graph), payloads_(payloads), walk_(walk) {}

  void read(std::string_view message);

 private:
  // A node on its way in: its inputs can be looked up only when every value is known.
  struct NodeRecord {
    Node node;
    std::vector<std::string_view> input_names;
    std::string_view value_tensor;  // attribute "value" of a Constant
    bool has_value_tensor = false;
  };

  void read_input(std::string_view message);
  void read_output(std::string_view message);
  void read_initializer(std::string_view message);
  void read_node(std::string_view message);
  void read_attribute(std::string_view message, NodeRecord& record, int depth);
  void read_subgraph(std::string_view message, int depth);
  void keep_constant_node(NodeRecord record);
  Port read_port(std::string_view message, std::string_view* name);
  ValueId define(std::string_view name, ValueSource source, const std::string& what);
  void place_value(ValueId id, const TensorPlace& place, DType dtype, const Shape& dims);
  ValueId find(std::string_view name) const;

  ModelGraph& graph_;
  PayloadTable& payloads_;
  Walk& walk_;
  std::unordered_map<std::string_view, ValueId> values_;    // keys lie in the mapped file
  std::vector<std::vector<std::string_view>> input_names_;  // by NodeId, until every value is known
};

}  // namespace ompipe::model
