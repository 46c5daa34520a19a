// The attributes of a node.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph_reader.h"
#include "ompipe/model/decode.h"
#include "onnx_fields.h"
#include "tensor_reader.h"
#include "walk.h"

namespace ompipe::model {
namespace {

// An inline tensor small enough to be kept with its node (the value of ConstantOfShape), decoded; else nothing.
std::optional<ConstantTensor> small_tensor(const TensorRecord& tensor, Walk& walk) {
  const uint64_t bytes = tensor.external || dtype_bytes(tensor.dtype) == 0 ? UINT64_MAX : decoded_bytes(tensor);
  if (bytes > kMaxLooseBytes) return std::nullopt;
  ConstantTensor kept{.dtype = tensor.dtype, .dims = tensor.dims, .bytes = std::vector<uint8_t>(bytes)};
  if (tensor.loose) {
    kept.bytes = *tensor.loose;
  } else {
    const auto* first = reinterpret_cast<const uint8_t*>(walk.bytes.data()) + tensor.inline_range->offset;
    if (tensor.encoding == Encoding::packed_varint) {
      const Status decoded = decode_varints({first, tensor.inline_range->length}, tensor.dtype,
                                            bytes / dtype_bytes(tensor.dtype), kept.bytes.data(), tensor.name);
      if (!decoded) walk.fail(tensor.name, decoded.error().reason);
    } else {
      kept.bytes.assign(first, first + std::min<uint64_t>(tensor.inline_range->length, kMaxLooseBytes + 1));
    }
  }
  if (kept.bytes.size() != bytes) {
    walk.fail(tensor.name,
              fmt::format("{} {} needs {} bytes", dtype_name(tensor.dtype), shape_text(tensor.dims), bytes));
  }
  return kept;
}

}  // namespace

void GraphReader::read_attribute(std::string_view bytes, NodeRecord& record) {
  Attribute attribute;
  int32_t type = 0;
  std::optional<AttributeValue> value;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string_view> tensors, graphs;
  auto message = message_of(bytes);
  while (walk_.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::attribute_name, kBytes):
        attribute.name = message.get_string();
        break;
      case key(field::attribute_type, kVarint):
        type = message.get_int32();
        break;
      case key(field::attribute_f, kFixed32):
        value = message.get_float();
        break;
      case key(field::attribute_i, kVarint):
        value = message.get_int64();
        break;
      case key(field::attribute_s, kBytes):
        value = message.get_string();
        break;
      case key(field::attribute_floats, kFixed32):
        floats.push_back(message.get_float());
        break;
      case key(field::attribute_floats, kBytes):
        for (float number : message.get_packed_float()) floats.push_back(number);
        break;
      case key(field::attribute_ints, kVarint):
        ints.push_back(message.get_int64());
        break;
      case key(field::attribute_ints, kBytes):
        for (int64_t number : message.get_packed_int64()) ints.push_back(number);
        break;
      case key(field::attribute_t, kBytes):
      case key(field::attribute_tensors, kBytes):
        tensors.push_back(text_of(message.get_view()));
        break;
      case key(field::attribute_g, kBytes):
      case key(field::attribute_graphs, kBytes):
        graphs.push_back(text_of(message.get_view()));
        break;
      default:
        message.skip();
    }
  }
  walk_.at = bytes.data();
  if (attribute.name.empty()) walk_.fail(record.node.name, "attribute without a name");
  for (std::string_view graph : graphs) {
    const SubgraphId held = read_subgraph(graph, attribute.name);
    record.node.graphs.push_back(held);
    value = GraphRef{held};
  }
  for (std::string_view tensor : tensors) {
    if (attribute.name == "value" && record.node.op_type == "Constant") {
      record.value_tensor = tensor;
      record.has_value_tensor = true;
      continue;
    }
    TensorRecord read = read_tensor(tensor, record.node.name + "." + attribute.name, walk_);
    if (std::optional<ConstantTensor> small = small_tensor(read, walk_)) {
      value = std::move(*small);
    } else {
      payloads_.add(std::move(read), walk_);
    }
  }
  // Fields that hold zero or nothing may be left out of the file; the type says what they are.
  if (type == field::type_ints || !ints.empty()) {
    value = std::move(ints);
  } else if (type == field::type_floats || !floats.empty()) {
    value = std::move(floats);
  } else if (!value && type == field::type_int) {
    value = int64_t(0);
  } else if (!value && type == field::type_float) {
    value = 0.0f;
  } else if (!value && type == field::type_string) {
    value = std::string();
  }
  attribute.value = value ? std::move(*value) : std::monostate();
  record.node.attributes.push_back(std::move(attribute));
}

}  // namespace ompipe::model
