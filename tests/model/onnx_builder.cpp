#include "onnx_builder.h"

#include <stdlib.h>

#include <cstring>
#include <fstream>
#include <protozero/pbf_writer.hpp>

#include "ompipe/arenas/error.h"
#include "ompipe/model/resolver.h"

namespace ompipe::test {
namespace {

using protozero::pbf_writer;

template <class T>
std::string bytes_of(const std::vector<T>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)};
}

void write_entry(pbf_writer& parent, uint32_t tag, const std::string& name, const std::string& value) {
  pbf_writer entry(parent, tag);
  entry.add_string(1, name);
  entry.add_string(2, value);
}

void write_numbers(pbf_writer& message, const Tensor& tensor) {
  const std::vector<double>& numbers = tensor.numbers;
  std::vector<float> floats(numbers.begin(), numbers.end());
  std::vector<int64_t> integers(numbers.begin(), numbers.end());
  const auto half = integers.begin() + std::ptrdiff_t(integers.size() / 2);
  switch (tensor.form) {
    case Form::floats:
      message.add_packed_float(4, floats.begin(), floats.end());
      break;
    case Form::floats_loose:
      for (float number : floats) message.add_float(4, number);
      break;
    case Form::doubles:
      message.add_packed_double(10, numbers.begin(), numbers.end());
      break;
    case Form::int32s:
      message.add_packed_int32(5, integers.begin(), integers.end());
      break;
    case Form::int64s:
      message.add_packed_int64(7, integers.begin(), integers.end());
      break;
    case Form::int64s_loose:
      for (int64_t number : integers) message.add_int64(7, number);
      break;
    case Form::int64s_two_pieces:
      message.add_packed_int64(7, integers.begin(), half);
      message.add_packed_int64(7, half, integers.end());
      break;
    default:
      break;
  }
}

std::string attribute(const std::string& name, int type, auto write) {
  std::string bytes;
  pbf_writer message(bytes);
  message.add_string(1, name);
  write(message);
  message.add_int32(20, type);
  return bytes;
}

void write_port(pbf_writer& graph, uint32_t tag, const PortSpec& port) {
  pbf_writer info(graph, tag);
  info.add_string(1, port.name);
  pbf_writer type(info, 2);
  pbf_writer tensor(type, 1);
  tensor.add_int32(1, int32_t(port.dtype));
  if (!port.ranked) return;
  if (port.dims.empty()) {
    tensor.add_message(2, std::string());  // an empty sub-writer would be rolled back
    return;
  }
  pbf_writer shape(tensor, 2);
  for (const std::string& text : port.dims) {
    pbf_writer dim(shape, 1);
    if (text.find_first_not_of("0123456789") == std::string::npos) {
      dim.add_int64(1, std::stoll(text));
    } else if (text != "?") {
      dim.add_string(2, text);
    }
  }
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ompipe_model_XXXXXX").string();
  OMPIPE_CHECK(mkdtemp(name.data()) != nullptr);
  root_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string TempFolder::write(std::string_view name, std::string_view bytes) const {
  const std::string place = path(name);
  std::filesystem::create_directories(std::filesystem::path(place).parent_path());
  std::filesystem::remove(place);  // a new file: ext4 writes a truncated one back at once, which costs milliseconds
  std::ofstream(place, std::ios::binary) << bytes;
  return place;
}

std::string tensor_message(const Tensor& tensor) {
  std::string bytes;
  pbf_writer message(bytes);
  message.add_packed_int64(1, tensor.dims.begin(), tensor.dims.end());
  message.add_int32(2, int32_t(tensor.dtype));
  write_numbers(message, tensor);
  if (!tensor.name.empty()) message.add_string(8, tensor.name);
  if (tensor.form == Form::raw) message.add_bytes(9, tensor.raw);
  if (tensor.form == Form::external) {
    for (const auto& [name, value] : tensor.external) write_entry(message, 13, name, value);
    message.add_int32(14, 1);
  }
  return bytes;
}

std::string i64_bytes(const std::vector<int64_t>& numbers) { return bytes_of(numbers); }
std::string f32_bytes(const std::vector<float>& numbers) { return bytes_of(numbers); }

Tensor zeros(std::string name, model::DType dtype, std::vector<int64_t> dims) {
  const size_t bytes = size_t(model::element_count(dims)) * model::dtype_bytes(dtype);
  return {.name = std::move(name), .dtype = dtype, .dims = std::move(dims), .raw = std::string(bytes, '\0')};
}

Tensor i64s(std::string name, std::vector<int64_t> numbers) {
  return {.name = std::move(name),
          .dtype = model::DType::i64,
          .dims = {int64_t(numbers.size())},
          .raw = i64_bytes(numbers)};
}

Tensor i64_scalar(std::string name, int64_t number) {
  return {.name = std::move(name), .dtype = model::DType::i64, .dims = {}, .raw = i64_bytes({number})};
}

std::string int_attr(const std::string& name, int64_t value) {
  return attribute(name, 2, [&](pbf_writer& message) { message.add_int64(3, value); });
}
std::string ints_attr(const std::string& name, const std::vector<int64_t>& values) {
  return attribute(name, 7, [&](pbf_writer& message) { message.add_packed_int64(8, values.begin(), values.end()); });
}
std::string float_attr(const std::string& name, float value) {
  return attribute(name, 1, [&](pbf_writer& message) { message.add_float(2, value); });
}
std::string floats_attr(const std::string& name, const std::vector<float>& values) {
  return attribute(name, 6, [&](pbf_writer& message) { message.add_packed_float(7, values.begin(), values.end()); });
}
std::string string_attr(const std::string& name, const std::string& value) {
  return attribute(name, 3, [&](pbf_writer& message) { message.add_bytes(4, value); });
}
std::string tensor_attr(const std::string& name, const Tensor& tensor) {
  return attribute(name, 4, [&](pbf_writer& message) { message.add_message(5, tensor_message(tensor)); });
}
std::string graph_attr(const std::string& name, const std::string& graph) {
  return attribute(name, 5, [&](pbf_writer& message) { message.add_message(6, graph); });
}
std::string empty_attr(const std::string& name, int type) {
  return attribute(name, type, [](pbf_writer&) {});
}

std::string graph_message(const ModelSpec& spec) {
  std::string bytes;
  pbf_writer graph(bytes);
  for (const NodeSpec& node : spec.nodes) {
    pbf_writer message(graph, 1);
    for (const std::string& input : node.inputs) message.add_string(1, input);
    for (const std::string& output : node.outputs) message.add_string(2, output);
    if (!node.name.empty()) message.add_string(3, node.name);
    message.add_string(4, node.op);
    for (const std::string& attribute : node.attributes) message.add_message(5, attribute);
    if (!node.domain.empty()) message.add_string(7, node.domain);
  }
  graph.add_string(2, "test graph");
  for (const Tensor& tensor : spec.initializers) graph.add_message(5, tensor_message(tensor));
  for (const PortSpec& port : spec.inputs) write_port(graph, 11, port);
  for (const PortSpec& port : spec.outputs) write_port(graph, 12, port);
  return bytes;
}

std::string model_bytes(const ModelSpec& spec) {
  std::string bytes;
  pbf_writer model(bytes);
  model.add_int64(1, spec.ir_version);
  model.add_string(2, "ompipe tests");
  model.add_message(7, graph_message(spec));
  for (const auto& [domain, version] : spec.opsets) {
    pbf_writer opset(model, 8);
    opset.add_string(1, domain);
    opset.add_int64(2, version);
  }
  return bytes;
}

Result<std::shared_ptr<const model::ResolvedModel>> open_spec(const ModelSpec& spec) {
  TempFolder folder;
  return model::open_model(folder.write("model.onnx", model_bytes(spec)), {});
}

model::ValueId id_named(const model::ResolvedModel& model, std::string_view name) {
  for (size_t i = 0; i < model.values().size(); ++i) {
    if (model.values()[i].name == name) return model::ValueId(i);
  }
  fail_check("value of that name", __FILE__, __LINE__, std::string(name).c_str());
}

const model::Value& value_named(const model::ResolvedModel& model, std::string_view name) {
  return model.value(id_named(model, name));
}

}  // namespace ompipe::test
