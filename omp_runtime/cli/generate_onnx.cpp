#include "generate_onnx.h"

#include <protozero/pbf_writer.hpp>

namespace ompipe::cli {
namespace {

// Field numbers of onnx.proto (ONNX 1.12), by message.
namespace entry {
enum : uint32_t { key = 1, value = 2 };
}
namespace tensor {
enum : uint32_t { dims = 1, data_type = 2, name = 8, raw_data = 9, external_data = 13, data_location = 14 };
}
namespace attribute {
enum : uint32_t { name = 1, f = 2, i = 3, ints = 8, type = 20 };
}
namespace node {
enum : uint32_t { input = 1, output = 2, name = 3, op_type = 4, attribute = 5, domain = 7 };
}
namespace value_info {
enum : uint32_t { name = 1, type = 2 };
}
namespace type {
enum : uint32_t { tensor_type = 1 };
}
namespace tensor_type {
enum : uint32_t { elem_type = 1, shape = 2 };
}
namespace shape {
enum : uint32_t { dim = 1 };
}
namespace dimension {
enum : uint32_t { dim_value = 1, dim_param = 2 };
}
namespace graph {
enum : uint32_t { node = 1, name = 2, initializer = 5, input = 11, output = 12 };
}
namespace opset {
enum : uint32_t { domain = 1, version = 2 };
}
namespace model_proto {
enum : uint32_t { ir_version = 1, producer_name = 2, graph = 7, opset_import = 8, metadata_props = 14 };
}
constexpr int32_t kAttributeFloat = 1, kAttributeInt = 2, kAttributeInts = 7;  // AttributeProto.AttributeType
constexpr int32_t kExternal = 1;                                               // TensorProto.DataLocation

using protozero::pbf_writer;

void add_entry(pbf_writer& parent, uint32_t field, const std::string& key, const std::string& value) {
  pbf_writer writer(parent, field);
  writer.add_string(entry::key, key);
  writer.add_string(entry::value, value);
}

void add_tensor_head(pbf_writer& writer, const std::string& name, model::DType dtype, const model::Shape& dims) {
  for (const int64_t size : dims) writer.add_int64(tensor::dims, size);
  writer.add_int32(tensor::data_type, int32_t(dtype));
  writer.add_string(tensor::name, name);
}

void add_constant(pbf_writer& graph_writer, const ConstantSpec& constant) {
  pbf_writer writer(graph_writer, graph::initializer);
  add_tensor_head(writer, constant.name, constant.dtype, constant.dims);
  writer.add_bytes(tensor::raw_data, constant.raw);
}

void add_weight(pbf_writer& graph_writer, const WeightSpec& weight, const PlacedWeight& placed,
                const std::string& location) {
  pbf_writer writer(graph_writer, graph::initializer);
  add_tensor_head(writer, weight.name, weight.dtype, weight.dims);
  add_entry(writer, tensor::external_data, "location", location);
  add_entry(writer, tensor::external_data, "offset", std::to_string(placed.offset));
  add_entry(writer, tensor::external_data, "length", std::to_string(placed.length));
  add_entry(writer, tensor::external_data, "checksum", io::format_digest(placed.digest));
  writer.add_enum(tensor::data_location, kExternal);
}

void add_attribute(pbf_writer& node_writer, const AttributeSpec& made) {
  pbf_writer writer(node_writer, node::attribute);
  writer.add_string(attribute::name, made.name);
  if (const float* real = std::get_if<float>(&made.value)) {
    writer.add_float(attribute::f, *real);
    writer.add_enum(attribute::type, kAttributeFloat);
  } else if (const int64_t* integer = std::get_if<int64_t>(&made.value)) {
    writer.add_int64(attribute::i, *integer);
    writer.add_enum(attribute::type, kAttributeInt);
  } else {
    for (const int64_t integer : std::get<std::vector<int64_t>>(made.value)) writer.add_int64(attribute::ints, integer);
    writer.add_enum(attribute::type, kAttributeInts);
  }
}

void add_node(pbf_writer& graph_writer, const NodeSpec& made) {
  pbf_writer writer(graph_writer, graph::node);
  for (const std::string& name : made.inputs) writer.add_string(node::input, name);
  for (const std::string& name : made.outputs) writer.add_string(node::output, name);
  writer.add_string(node::name, made.name);
  writer.add_string(node::op_type, made.op);
  for (const AttributeSpec& each : made.attributes) add_attribute(writer, each);
  if (!made.domain.empty()) writer.add_string(node::domain, made.domain);
}

void add_value(pbf_writer& graph_writer, uint32_t field, const ValueSpec& made) {
  pbf_writer writer(graph_writer, field);
  writer.add_string(value_info::name, made.name);
  pbf_writer type_writer(writer, value_info::type);
  pbf_writer tensor_writer(type_writer, type::tensor_type);
  tensor_writer.add_int32(tensor_type::elem_type, int32_t(made.dtype));
  pbf_writer shape_writer(tensor_writer, tensor_type::shape);
  for (const model::Dim& size : made.shape) {
    pbf_writer dim_writer(shape_writer, shape::dim);
    if (size.value) {
      dim_writer.add_int64(dimension::dim_value, *size.value);
    } else {
      dim_writer.add_string(dimension::dim_param, size.symbol);
    }
  }
}

void add_opset(pbf_writer& model_writer, const std::string& domain, int64_t version) {
  pbf_writer writer(model_writer, model_proto::opset_import);
  writer.add_string(opset::domain, domain);
  writer.add_int64(opset::version, version);
}

void add_graph(pbf_writer& model_writer, const ModelSpec& made, const std::vector<PlacedWeight>& placed,
               const std::string& location) {
  pbf_writer writer(model_writer, model_proto::graph);
  for (const NodeSpec& each : made.nodes) add_node(writer, each);
  writer.add_string(graph::name, made.name);
  for (const ConstantSpec& each : made.constants) add_constant(writer, each);
  for (size_t i = 0; i < made.weights.size(); ++i) add_weight(writer, made.weights[i], placed[i], location);
  for (const ValueSpec& each : made.inputs) add_value(writer, graph::input, each);
  for (const ValueSpec& each : made.outputs) add_value(writer, graph::output, each);
}

}  // namespace

std::string onnx_bytes(const ModelSpec& model, const std::vector<PlacedWeight>& placed, const std::string& location,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(model_proto::ir_version, 8);
  writer.add_string(model_proto::producer_name, "ompipe");
  add_graph(writer, model, placed, location);
  add_opset(writer, "", 17);
  add_opset(writer, kMicrosoft, 1);
  for (const auto& [key, value] : metadata) add_entry(writer, model_proto::metadata_props, key, value);
  return bytes;
}

}  // namespace ompipe::cli
