// Field numbers of the ONNX protobuf messages that the reader looks at (onnx.proto, IR version 8).
#pragma once

#include <cstdint>

namespace ompipe::model::field {

enum Model : uint32_t {
  model_ir_version = 1,
  model_producer_name = 2,
  model_producer_version = 3,
  model_domain = 4,
  model_version = 5,
  model_graph = 7,
  model_opset_import = 8,
  model_metadata_props = 14,
};
enum OperatorSet : uint32_t { opset_domain = 1, opset_version = 2 };
enum StringEntry : uint32_t { entry_key = 1, entry_value = 2 };
enum Graph : uint32_t {
  graph_node = 1,
  graph_name = 2,
  graph_initializer = 5,
  graph_input = 11,
  graph_output = 12,
  graph_sparse_initializer = 15,
};
enum Node : uint32_t {
  node_input = 1,
  node_output = 2,
  node_name = 3,
  node_op_type = 4,
  node_attribute = 5,
  node_domain = 7,
};
enum Attribute : uint32_t {
  attribute_name = 1,
  attribute_f = 2,
  attribute_i = 3,
  attribute_s = 4,
  attribute_t = 5,
  attribute_g = 6,
  attribute_floats = 7,
  attribute_ints = 8,
  attribute_strings = 9,
  attribute_tensors = 10,
  attribute_graphs = 11,
  attribute_type = 20,
};
enum AttributeType : int32_t {
  type_float = 1,
  type_int = 2,
  type_string = 3,
  type_tensor = 4,
  type_graph = 5,
  type_floats = 6,
  type_ints = 7,
};
enum Tensor : uint32_t {
  tensor_dims = 1,
  tensor_data_type = 2,
  tensor_segment = 3,
  tensor_float_data = 4,
  tensor_int32_data = 5,
  tensor_string_data = 6,
  tensor_int64_data = 7,
  tensor_name = 8,
  tensor_raw_data = 9,
  tensor_double_data = 10,
  tensor_uint64_data = 11,
  tensor_external_data = 13,
  tensor_data_location = 14,
};
enum ValueInfo : uint32_t { info_name = 1, info_type = 2 };
enum Type : uint32_t { type_proto_tensor = 1, type_tensor_elem = 1, type_tensor_shape = 2, shape_dim = 1 };
enum Dimension : uint32_t { dim_value = 1, dim_param = 2 };

}  // namespace ompipe::model::field
