#include "graph_reader.h"

#include <fmt/format.h>

#include "ompipe/model/infer.h"
#include "onnx_fields.h"
#include "tensor_reader.h"
#include "walk.h"

namespace ompipe::model {
namespace {

Dim read_dim(std::string_view bytes, Walk& walk) {
  Dim dim;
  auto message = message_of(bytes);
  while (walk.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::dim_value, kVarint):
        dim = {};
        if (const int64_t value = message.get_int64(); value >= 0) dim.value = value;  // -1: some exporters' "unknown"
        break;
      case key(field::dim_param, kBytes):
        dim = {.value = {}, .symbol = message.get_string()};
        break;
      default:
        message.skip();
    }
  }
  return dim;
}

void read_tensor_type(std::string_view bytes, Port& port, Walk& walk) {
  auto message = message_of(bytes);
  while (walk.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::type_tensor_elem, kVarint):
        port.dtype = known_dtype(message.get_int32());
        break;
      case key(field::type_tensor_shape, kBytes): {
        port.has_shape = true;
        auto shape = message.get_message();
        while (walk.next(shape)) {
          if (shape.tag_and_type() == key(field::shape_dim, kBytes)) {
            port.shape.push_back(read_dim(text_of(shape.get_view()), walk));
          } else {
            shape.skip();
          }
        }
        break;
      }
      default:
        message.skip();
    }
  }
}

}  // namespace

ValueId GraphReader::find(std::string_view name) const {
  const auto& values = scopes_[size_t(scope_)].values;
  const auto place = values.find(name);
  return place == values.end() ? kNone : place->second;
}

ValueId GraphReader::define(std::string_view name, ValueSource source, const std::string& what) {
  const ValueId id = ValueId(graph_.values.size());
  const auto [place, fresh] = scopes_[size_t(scope_)].values.try_emplace(name, id);
  if (!fresh) walk_.fail(std::string(name), fmt::format("{} defines a value that is defined already", what));
  graph_.values.emplace_back();
  graph_.values.back().name = name;
  graph_.values.back().source = source;
  return id;
}

Port GraphReader::read_port(std::string_view bytes, std::string_view* name) {
  Port port;
  auto message = message_of(bytes);
  while (walk_.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::info_name, kBytes):
        *name = text_of(message.get_view());
        break;
      case key(field::info_type, kBytes): {
        auto type = message.get_message();
        while (walk_.next(type)) {
          if (type.tag_and_type() == key(field::type_proto_tensor, kBytes)) {
            read_tensor_type(text_of(type.get_view()), port, walk_);
          } else {
            type.skip();
          }
        }
        break;
      }
      default:
        message.skip();
    }
  }
  port.name = *name;
  if (port.name.empty()) walk_.fail("", "graph input or output without a name");
  if (port.shape.size() > size_t(kMaxRank)) {
    walk_.fail(port.name, fmt::format("shape of rank {}, at most {} is supported", port.shape.size(), kMaxRank));
  }
  return port;
}

GraphReader::Parts GraphReader::split(std::string_view bytes) {
  Parts parts;
  auto message = message_of(bytes);
  while (walk_.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::graph_node, kBytes):
        parts.nodes.push_back(text_of(message.get_view()));
        break;
      case key(field::graph_name, kBytes):
        if (scope_ == 0) {
          graph_.metadata.graph_name = message.get_string();
        } else {
          message.skip();
        }
        break;
      case key(field::graph_initializer, kBytes):
        parts.initializers.push_back(text_of(message.get_view()));
        break;
      case key(field::graph_input, kBytes):
        parts.inputs.push_back(text_of(message.get_view()));
        break;
      case key(field::graph_output, kBytes):
        parts.outputs.push_back(text_of(message.get_view()));
        break;
      case key(field::graph_sparse_initializer, kBytes):
        walk_.fail("", "sparse initializers are not supported");
      default:
        message.skip();
    }
  }
  graph_.metadata.nodes += int64_t(parts.nodes.size());
  graph_.metadata.initializers += int64_t(parts.initializers.size());
  return parts;
}

void GraphReader::read(std::string_view bytes) {
  scopes_.emplace_back();
  const Parts parts = split(bytes);
  graph_.values.reserve(parts.inputs.size() + parts.initializers.size() + 2 * parts.nodes.size());
  scopes_[0].values.reserve(graph_.values.capacity());
  for (std::string_view input : parts.inputs) read_input(input);
  for (std::string_view initializer : parts.initializers) read_initializer(initializer);
  // Before IR version 4 every initializer had to be listed as an input, and none could be fed.
  std::erase_if(graph_.inputs, [&](const Port& port) {
    return graph_.values[size_t(port.value)].source == ValueSource::initializer ||
           graph_.values[size_t(port.value)].source == ValueSource::constant;
  });
  for (std::string_view node : parts.nodes) read_node(node);
  link();
  for (std::string_view output : parts.outputs) read_output(output);
}

void GraphReader::read_input(std::string_view bytes) {
  std::string_view name;
  Port port = read_port(bytes, &name);
  port.value = define(name, ValueSource::graph_input, "graph input");
  Value& value = graph_.values.back();
  value.dtype = port.dtype;
  value.shape = port.shape;
  value.has_shape = port.has_shape;
  graph_.inputs.push_back(std::move(port));
}

void GraphReader::read_output(std::string_view bytes) {
  std::string_view name;
  Port port = read_port(bytes, &name);
  port.value = find(port.name);
  if (port.value == kNone) walk_.fail(port.name, "graph output is not defined");
  graph_.outputs.push_back(std::move(port));
}

void GraphReader::place_value(ValueId id, const TensorPlace& place, DType dtype, const Shape& dims) {
  Value& value = graph_.values[size_t(id)];
  value.payload = place.payload;
  value.constant = place.constant;
  if (place.constant != kNone && value.source != ValueSource::overridable) value.source = ValueSource::constant;
  value.dtype = dtype;
  value.has_shape = true;
  value.shape.clear();
  for (int64_t dim : dims) value.shape.push_back({.value = dim, .symbol = {}});
}

void GraphReader::read_initializer(std::string_view bytes) {
  TensorRecord tensor = read_tensor(bytes, "", walk_);
  if (tensor.name.empty()) walk_.fail("", "initializer without a name");
  ValueId id = find(tensor.name);
  const DType dtype = tensor.dtype;
  const Shape dims = tensor.dims;
  if (id == kNone) {
    id = define(tensor.name_view, ValueSource::initializer, "initializer");
  } else {
    Value& value = graph_.values[size_t(id)];
    if (value.source == ValueSource::body_input) walk_.fail(tensor.name, "initializer of a subgraph's input");
    if (value.source != ValueSource::graph_input) walk_.fail(tensor.name, "two initializers of that name");
    if (value.dtype != DType::undefined && value.dtype != dtype) {
      walk_.fail(tensor.name, fmt::format("initializer is {}, the graph input of that name {}", dtype_name(dtype),
                                          dtype_name(value.dtype)));
    }
    value.source = graph_.metadata.ir_version >= 4 ? ValueSource::overridable : ValueSource::initializer;
  }
  place_value(id, payloads_.add(std::move(tensor), walk_), dtype, dims);
}

void GraphReader::read_node(std::string_view bytes) {
  NodeRecord record;
  Node& node = record.node;
  std::vector<std::string_view> outputs, attributes;
  auto message = message_of(bytes);
  while (walk_.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::node_input, kBytes):
        record.input_names.push_back(text_of(message.get_view()));
        break;
      case key(field::node_output, kBytes):
        outputs.push_back(text_of(message.get_view()));
        break;
      case key(field::node_name, kBytes):
        node.name = message.get_string();
        break;
      case key(field::node_op_type, kBytes):
        node.op_type = message.get_string();
        break;
      case key(field::node_domain, kBytes):
        node.domain = message.get_string();
        break;
      case key(field::node_attribute, kBytes):
        attributes.push_back(text_of(message.get_view()));
        break;
      default:
        message.skip();
    }
  }
  walk_.at = bytes.data();
  if (node.op_type.empty()) walk_.fail(node.name, "node without an operator");
  if (node.domain == "ai.onnx") node.domain.clear();
  if (node.name.empty()) node.name = fmt::format("{}_{}", node.op_type, graph_.nodes.size());
  // Before the nodes of its subgraphs.
  const bool constant = node.op_type == "Constant" && node.domain.empty();
  const auto id = NodeId(graph_.nodes.size());
  if (!constant) {
    graph_.nodes.emplace_back();
    names_.emplace_back();
  }
  for (std::string_view attribute : attributes) read_attribute(attribute, record);
  for (std::string_view name : outputs) {
    walk_.at = bytes.data();
    node.outputs.push_back(name.empty() ? kNone : define(name, ValueSource::node, "node " + node.name));
  }
  if (constant) {
    keep_constant_node(std::move(record));
    return;
  }
  for (ValueId output : node.outputs) {
    if (output != kNone) graph_.values[size_t(output)].producer = id;
  }
  for (SubgraphId held : node.graphs) graph_.graphs[size_t(held)].owner = id;
  node.graph = scopes_[size_t(scope_)].graph;
  graph_.nodes[size_t(id)] = std::move(record.node);
  names_[size_t(id)] = {std::move(record.input_names), scope_};
}

void GraphReader::keep_constant_node(NodeRecord record) {
  const Node& node = record.node;
  if (node.outputs.size() != 1 || node.outputs[0] == kNone) walk_.fail(node.name, "Constant without its one output");
  const ValueId id = node.outputs[0];
  graph_.values[size_t(id)].source = ValueSource::initializer;
  if (record.has_value_tensor) {
    TensorRecord tensor = read_tensor(record.value_tensor, graph_.values[size_t(id)].name, walk_);
    const DType dtype = tensor.dtype;
    const Shape dims = tensor.dims;
    place_value(id, payloads_.add(std::move(tensor), walk_), dtype, dims);
    return;
  }
  ConstantTensor constant;
  auto store = [&](DType dtype, Shape dims, const void* data, size_t bytes) {
    const auto* first = static_cast<const uint8_t*>(data);
    constant = {.dtype = dtype, .dims = std::move(dims), .bytes = std::vector<uint8_t>(first, first + bytes)};
  };
  const AttributeValue* value = nullptr;
  for (const char* name : {"value_int", "value_ints", "value_float", "value_floats"}) {
    if (!value) value = node.attribute(name);
  }
  if (!value) walk_.fail(node.name, "Constant without a supported value");
  if (const auto* number = std::get_if<int64_t>(value)) {
    store(DType::i64, {}, number, sizeof(*number));
  } else if (const auto* real = std::get_if<float>(value)) {
    store(DType::f32, {}, real, sizeof(*real));
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) {
    store(DType::i64, {int64_t(numbers->size())}, numbers->data(), numbers->size() * sizeof(int64_t));
  } else if (const auto* reals = std::get_if<std::vector<float>>(value)) {
    store(DType::f32, {int64_t(reals->size())}, reals->data(), reals->size() * sizeof(float));
  } else {
    walk_.fail(node.name, "Constant whose value has the wrong type");
  }
  graph_.constants.push_back(constant);
  place_value(id, {.constant = int32_t(graph_.constants.size()) - 1}, constant.dtype, constant.dims);
}

}  // namespace ompipe::model
