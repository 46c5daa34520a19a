// Writes small ONNX files by hand, field by field, so that tests can state any form, right or wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ompipe/model/resolved_model.h"
#include "ompipe/model/types.h"

namespace ompipe::test {

// A folder that is removed with everything in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path(std::string_view name = {}) const { return name.empty() ? root_ : root_ + "/" + std::string(name); }
  std::string write(std::string_view name, std::string_view bytes) const;  // returns the path; makes folders on the way

 private:
  std::string root_;
};

// How a tensor's elements stand in the file.
enum class Form { raw, floats, floats_loose, doubles, int32s, int64s, int64s_loose, int64s_two_pieces, external, none };

struct Tensor {
  std::string name;
  model::DType dtype = model::DType::f32;
  std::vector<int64_t> dims;
  Form form = Form::raw;
  std::string raw = {};                                            // Form::raw
  std::vector<double> numbers = {};                                // the typed forms
  std::vector<std::pair<std::string, std::string>> external = {};  // Form::external
};
std::string tensor_message(const Tensor& tensor);
// Little-endian elements.
std::string i64_bytes(const std::vector<int64_t>& numbers);
std::string f32_bytes(const std::vector<float>& numbers);
// A raw tensor of that many zero bytes an element.
Tensor zeros(std::string name, model::DType dtype, std::vector<int64_t> dims);
Tensor i64s(std::string name, std::vector<int64_t> numbers);  // one-dimensional
Tensor i64_scalar(std::string name, int64_t number);

// Attributes, as encoded messages.
std::string int_attr(const std::string& name, int64_t value);
std::string ints_attr(const std::string& name, const std::vector<int64_t>& values);
std::string float_attr(const std::string& name, float value);
std::string floats_attr(const std::string& name, const std::vector<float>& values);
std::string string_attr(const std::string& name, const std::string& value);
std::string tensor_attr(const std::string& name, const Tensor& tensor);
std::string graph_attr(const std::string& name, const std::string& graph_message);
std::string empty_attr(const std::string& name, int type);  // type without a field: zero, or nothing

struct NodeSpec {
  std::string op;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes = {};
  std::string domain = {};
  std::string name = {};
};

// Dimensions: digits are a number, "?" is unknown, anything else a symbol. `ranked` false: no shape at all.
struct PortSpec {
  std::string name;
  model::DType dtype = model::DType::f32;
  std::vector<std::string> dims = {};
  bool ranked = true;
};

struct ModelSpec {
  std::vector<NodeSpec> nodes;
  std::vector<PortSpec> inputs, outputs;
  std::vector<Tensor> initializers = {};
  int64_t ir_version = 8;
  std::vector<std::pair<std::string, int64_t>> opsets = {{"", 17}, {"com.microsoft", 1}};
};
std::string graph_message(const ModelSpec& spec);
std::string model_bytes(const ModelSpec& spec);

// Writes the model into a folder of its own and opens it.
Result<std::shared_ptr<const model::ResolvedModel>> open_spec(const ModelSpec& spec);

// The value of that name; the test fails when there is none.
const model::Value& value_named(const model::ResolvedModel& model, std::string_view name);
model::ValueId id_named(const model::ResolvedModel& model, std::string_view name);

}  // namespace ompipe::test
