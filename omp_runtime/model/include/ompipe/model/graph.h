// The graph of a model after reading: values, nodes and attributes, by index.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ompipe/model/ops.h"
#include "ompipe/model/payload.h"
#include "ompipe/model/types.h"

namespace ompipe::model {

using ValueId = int32_t;
using NodeId = int32_t;
using SubgraphId = int32_t;

// Integers of any width, and booleans.
bool is_integer(DType type);

// A small tensor that resolution may look into (shape arithmetic, axes, scalars): elements little-endian in `bytes`.
struct ConstantTensor {
  DType dtype = DType::undefined;
  Shape dims;
  std::vector<uint8_t> bytes;

  // The elements as int64 (any integer type). The dtype must be an integer or boolean one.
  std::vector<int64_t> as_int64() const;
};

// What a value is, beside the output of a node.
enum class ValueSource : uint8_t {
  node,         // computed
  graph_input,  // fed by the caller
  overridable,  // an initializer that is also a graph input: the caller may feed it; never prepared, never persisted
  initializer,  // constant bytes in a payload (initializers, tensors in Constant nodes)
  constant,     // small and already known (folded, or read inline); `constant` below is set
  body_input,   // given by the Loop whose body it is an input of, before each pass
};

struct Value {
  std::string name;
  ValueSource source = ValueSource::node;
  DType dtype = DType::undefined;  // undefined: not inferred
  SymbolicShape shape;             // valid when has_shape
  bool has_shape = false;
  PayloadId payload = kNone;  // initializer, overridable
  int32_t constant = kNone;   // index into ResolvedModel::constants
  NodeId producer = kNone;

  // Of a tensor of the file, whose dimensions are all numbers. Tensors may share a payload and differ in this.
  Shape dims() const;
};

// An attribute that holds a graph: its index among the model's subgraphs.
struct GraphRef {
  SubgraphId graph = kNone;
};

struct Attribute;
// monostate: of a kind that no operator here takes, or a tensor too large to be kept with its node.
using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                                    ConstantTensor, GraphRef, std::monostate>;
struct Attribute {
  std::string name;
  AttributeValue value;
};

struct Node {
  std::string name;  // as in the model; "<op>_<index>" when it has none
  std::string op_type;
  std::string domain;                    // "" is ai.onnx
  int64_t opset = 0;                     // version of the domain that the model imports
  std::vector<ValueId> inputs, outputs;  // kNone: absent optional
  std::vector<Attribute> attributes;
  std::vector<SubgraphId> graphs;  // that its attributes hold, in the order of their nodes
  SubgraphId graph = kNone;        // it stands in this one; kNone: in the main graph
  const OpSpec* spec = nullptr;    // static row of the operator; null until resolution has chosen a kernel

  OpKind kind() const { return spec ? spec->kind : OpKind::none; }
  bool is_flow() const { return kind() == OpKind::if_else || kind() == OpKind::loop; }
  SubgraphId graph_attribute(const char* name) const;  // kNone when absent
  int64_t int_attribute(const char* name, int64_t absent) const;
  float float_attribute(const char* name, float absent) const;
  std::string string_attribute(const char* name, const std::string& absent) const;
  std::vector<int64_t> ints_attribute(const char* name) const;  // empty when absent
  const AttributeValue* attribute(const char* name) const;      // null when absent
};

// A graph that a node holds: a branch of If, the body of Loop. All nodes of a model stand in one sequence in which the
// nodes of a subgraph, those of graphs nested in it included, directly follow the node that holds it, or its previous
// subgraph. Names of the graphs around it are visible in it.
struct Subgraph {
  std::string name;      // of the attribute
  NodeId owner = kNone;  // kNone: its node is dead
  NodeId begin = 0, end = 0;
  bool certain = false;                  // body of a Loop that runs once at least, whatever is fed
  std::vector<ValueId> inputs, outputs;  // an output may be any value that is visible
};

// The position behind a node and all that stands in its subgraphs.
inline NodeId after_node(NodeId id, const std::vector<Node>& nodes, const std::vector<Subgraph>& graphs) {
  const Node& node = nodes[size_t(id)];
  return node.graphs.empty() ? id + 1 : graphs[size_t(node.graphs.back())].end;
}

}  // namespace ompipe::model
