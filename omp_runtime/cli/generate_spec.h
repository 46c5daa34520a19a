// A model to be generated, described without its bytes: graph, constants, and the rule that makes each weight.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ompipe/model/types.h"

namespace ompipe::cli {

// How the elements of a weight come from random bits (generate_fill.h).
enum class FillKind : uint8_t {
  nibbles,  // uint8: two 4-bit values a byte, uniform over 0..15 with 0 replaced by 8 (mean 8, deviation sqrt(17.5))
  uniform,  // float32: uniform in [low, high)
  uniform_f16,  // float32: the same, rounded to a value that float16 holds exactly
  table_f16,    // float16: multiples of 1/1024, uniform in [low, high], both within [-2, 2]
  cosine,       // float32 [positions, d/2]: cos(position / theta^(2 i / d)), theta in `high`
  sine,         // float32: the sine of the same angle
};

struct Fill {
  FillKind kind = FillKind::nibbles;
  double low = 0, high = 0;
};

// A tensor whose bytes lie in model.data.
struct WeightSpec {
  std::string name;
  model::DType dtype = model::DType::undefined;
  model::Shape dims;
  Fill fill = {};
  std::string same_bytes_as = {};  // name of an earlier weight whose range this one shares; then `fill` is unused
  bool row_addressed = false;      // its slice hashes go into model.digests

  uint64_t bytes() const { return uint64_t(model::element_count(dims)) * model::dtype_bytes(dtype); }
};

// A small tensor inside model.onnx: axes, shapes, scalars.
struct ConstantSpec {
  std::string name;
  model::DType dtype = model::DType::undefined;
  model::Shape dims;
  std::string raw;  // little-endian elements
};

struct AttributeSpec {
  std::string name;
  std::variant<int64_t, float, std::vector<int64_t>> value;
};

struct NodeSpec {
  std::string name, op, domain;  // domain empty: ai.onnx
  std::vector<std::string> inputs, outputs;
  std::vector<AttributeSpec> attributes;
};

struct ValueSpec {
  std::string name;
  model::DType dtype = model::DType::undefined;
  model::SymbolicShape shape;
};

// The whole model. Nodes stand in execution order, weights in the order of their bytes in the file: that of their use,
// with the small ones of a block (norms, biases) side by side before its first large one, so that one read fetches them
// all.
struct ModelSpec {
  std::string name;
  std::vector<ValueSpec> inputs, outputs;
  std::vector<NodeSpec> nodes;
  std::vector<ConstantSpec> constants;
  std::vector<WeightSpec> weights;

  // Appends a node named like its first output and returns that output's name.
  std::string node(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                   std::vector<AttributeSpec> attributes = {}, const std::string& domain = {});
  // Constants are made once for each name; both return the name. A shape is a vector, a scalar has no dimension.
  std::string int64s(const std::string& name, const std::vector<int64_t>& values, bool scalar = false);
  std::string scalar(const std::string& name, float value);
  // Appends a weight and returns its name.
  std::string weight(WeightSpec weight);
};

inline constexpr const char* kMicrosoft = "com.microsoft";

// Names of the symbolic dimensions.
model::Dim symbol(const char* name);
model::Dim fixed(int64_t value);

// The presets. `accuracy_level` is written to every MatMulNBits node.
ModelSpec tiny_int4(int accuracy_level);
ModelSpec qwen_0_5b_int4(int accuracy_level);
ModelSpec llama_1_1b_int4(int accuracy_level);
ModelSpec mlp_f32_1g();
ModelSpec bert_f32();

}  // namespace ompipe::cli
