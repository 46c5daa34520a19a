#include "run_inputs.h"

#include <cstring>
#include <map>

#include "ompipe/cli/tensor_file.h"

namespace ompipe::cli {

namespace {

using model::DType;
using Dims = std::map<std::string, int64_t>;

Error input_error(const std::string& name, std::string reason, const std::string& file = {}) {
  return {.kind = ErrorKind::usage, .phase = "input", .subject = name, .reason = std::move(reason), .file = file};
}

std::string names_of(const std::vector<model::Port>& ports) {
  std::string names;
  for (const model::Port& port : ports) names += (names.empty() ? "" : ", ") + port.name;
  return names;
}

std::string dims_text(const model::Port& port) {
  std::string text = "[";
  for (const model::Dim& dim : port.shape) {
    if (text.size() > 1) text += ",";
    text += dim.value ? std::to_string(*dim.value) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return text + "]";
}

// Numbers must be met; a symbol takes the first number that it meets.
Status check_input(const model::Port& port, const exec::Tensor& tensor, const std::string& file, Dims& dims) {
  const auto shape = tensor.shape();
  const auto refused = [&] {
    return input_error(port.name,
                       "is " + std::string(model::dtype_name(tensor.dtype)) + exec::shape_text(shape) +
                           ", the model expects " + model::dtype_name(port.dtype) +
                           (port.has_shape ? dims_text(port) : ""),
                       file);
  };
  if (tensor.dtype != port.dtype) return refused();
  if (!port.has_shape) return ok_status();
  if (shape.size() != port.shape.size()) return refused();
  for (size_t i = 0; i < shape.size(); ++i) {
    const model::Dim& dim = port.shape[i];
    if (dim.value && *dim.value != shape[i]) return refused();
    if (dim.value || dim.symbol.empty()) continue;
    const auto [known, added] = dims.emplace(dim.symbol, shape[i]);
    if (known->second != shape[i]) {
      return input_error(
          port.name,
          "has " + dim.symbol + " = " + std::to_string(shape[i]) + ", elsewhere it is " + std::to_string(known->second),
          file);
    }
  }
  return ok_status();
}

// SplitMix64 (Steele, Lea, Flood 2014): any seed gives a good stream, and the input's name makes it its own.
class Random {
 public:
  Random(uint64_t seed, const std::string& name) : state_(seed) {
    for (const char c : name) state_ = next() ^ uint64_t(static_cast<unsigned char>(c));
  }
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // A multiple of 1/64 in [-1, 1): every float type holds it.
  float unit() { return float(int(next() >> 57) - 64) / 64.0f; }

 private:
  uint64_t state_;
};

template <class T, class Make>
void fill_elements(const exec::Tensor& tensor, Make make) {
  T* elements = tensor.write<T>();
  for (int64_t i = 0; i < tensor.elements(); ++i) elements[i] = T(make());
}

// The bits of a small multiple of 1/64 as float16: 8 significant bits at most, so nothing is rounded.
uint16_t f16_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) == 0) return 0;
  const uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
  return uint16_t((bits >> 16 & 0x8000u) | exponent << 10 | (bits >> 13 & 0x3ffu));
}

uint16_t bf16_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t(bits >> 16);
}

void fill_random(const exec::Tensor& tensor, Random& random) {
  switch (tensor.dtype) {
    case DType::f32:
      return fill_elements<float>(tensor, [&] { return random.unit(); });
    case DType::f64:
      return fill_elements<double>(tensor, [&] { return random.unit(); });
    case DType::f16:
      return fill_elements<uint16_t>(tensor, [&] { return f16_bits(random.unit()); });
    case DType::bf16:
      return fill_elements<uint16_t>(tensor, [&] { return bf16_bits(random.unit()); });
    default:
      break;
  }
  const auto bit = [&] { return random.next() >> 63; };
  switch (model::dtype_bytes(tensor.dtype)) {
    case 1:
      return fill_elements<uint8_t>(tensor, bit);
    case 2:
      return fill_elements<uint16_t>(tensor, bit);
    case 4:
      return fill_elements<uint32_t>(tensor, bit);
    default:
      return fill_elements<uint64_t>(tensor, bit);
  }
}

Result<model::Shape> filled_shape(const model::Port& port, const Dims& dims) {
  if (!port.has_shape) return input_error(port.name, "has no shape in the model; give it with --input");
  model::Shape shape;
  for (const model::Dim& dim : port.shape) {
    if (dim.value) {
      shape.push_back(*dim.value);
      continue;
    }
    const auto known = dims.find(dim.symbol);
    if (known == dims.end()) {
      return input_error(port.name, dim.symbol.empty() ? "has a dimension without a name; give it with --input"
                                                       : "has an unknown dimension; give --dim '" + dim.symbol + "=N'");
    }
    shape.push_back(known->second);
  }
  return shape;
}

Result<exec::HeldTensor> fill_input(const model::Port& port, const FillChoice& fill, const Dims& dims) {
  if (fill.mode == FillMode::none)
    return input_error(port.name, "is missing; give --input '" + port.name + "=FILE' or --fill");
  if (model::dtype_bytes(port.dtype) == 0) return input_error(port.name, "is of a type that can't be filled");
  const Result<model::Shape> shape = filled_shape(port, dims);
  if (!shape) return shape.error();
  Result<exec::HeldTensor> tensor = make_owned_tensor(port.dtype, *shape, port.name);
  if (tensor && fill.mode == FillMode::random) {
    Random random(fill.seed, port.name);
    fill_random(tensor->view, random);
  }
  return tensor;
}

Result<Dims> given_dims(const model::ResolvedModel& model, const RunCommand& command) {
  Dims dims;
  for (const auto& [name, value] : command.choices.dims) {
    bool known = false;
    for (const model::Port& port : model.inputs()) {
      for (const model::Dim& dim : port.shape) known = known || dim.symbol == name;
    }
    if (!known) return input_error("--dim", "no input has a dimension '" + name + "'");
    if (!dims.emplace(name, value).second) return input_error("--dim", "'" + name + "' is given twice");
  }
  return dims;
}

}  // namespace

Result<std::vector<exec::NamedTensor>> make_inputs(const model::ResolvedModel& model, const RunCommand& command) {
  Result<Dims> dims = given_dims(model, command);
  if (!dims) return dims.error();
  std::map<int32_t, exec::HeldTensor> given;
  for (const auto& [name, file] : command.inputs) {
    const int32_t index = model.input_index(name);
    if (index == model::kNone) return input_error(name, "is no input of the model; it has " + names_of(model.inputs()));
    if (given.contains(index)) return input_error(name, "is given twice");
    Result<exec::HeldTensor> tensor = read_tensor_file(file);
    if (!tensor) {
      Error error = tensor.error();
      error.subject = name;
      return error;
    }
    if (Status status = check_input(model.inputs()[size_t(index)], tensor->view, file, *dims); !status)
      return status.error();
    given.emplace(index, *std::move(tensor));
  }
  std::vector<exec::NamedTensor> inputs;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    const model::Port& port = model.inputs()[i];
    if (const auto found = given.find(int32_t(i)); found != given.end()) {
      inputs.push_back({port.name, found->second});
      continue;
    }
    if (model.value(port.value).source == model::ValueSource::overridable) continue;
    Result<exec::HeldTensor> tensor = fill_input(port, command.fill, *dims);
    if (!tensor) return tensor.error();
    inputs.push_back({port.name, *std::move(tensor)});
  }
  return inputs;
}

}  // namespace ompipe::cli
