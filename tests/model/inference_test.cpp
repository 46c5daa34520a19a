// Every operator's rule, with symbols and with numbers, and what it refuses.
#include <doctest/doctest.h>

#include <map>

#include "ompipe/model/shape_binder.h"
#include "onnx_builder.h"

TEST_SUITE_BEGIN("inference");

namespace {

using namespace ompipe;
using namespace ompipe::model;
using namespace ompipe::test;
constexpr DType f32 = DType::f32, f16 = DType::f16, i64 = DType::i64, i32 = DType::i32, u8 = DType::u8,
                boolean = DType::boolean;

// What the symbols are when shapes are bound.
const std::map<std::string, int64_t> kSizes = {{"b", 2}, {"s", 3}, {"p", 5}, {"t", 8}, {"n", 6}};

struct Case {
  NodeSpec node;
  std::vector<PortSpec> inputs;
  std::vector<Tensor> constants;
  std::vector<std::string> symbolic;       // "float32 [b, 4]" of each output, or a part of the refusal
  std::vector<std::string> concrete = {};  // dims alone; empty: the same as symbolic
  int64_t opset = 17;
};

std::string describe(const Case& wanted) {
  std::string text = wanted.node.op + " " + std::to_string(wanted.opset);
  for (const PortSpec& port : wanted.inputs) {
    text += " [";
    for (const std::string& dim : port.dims) text += dim + " ";
    text += "]";
  }
  return text;
}

ModelSpec spec_of(const Case& wanted) {
  ModelSpec spec;
  spec.nodes = {wanted.node};
  spec.inputs = wanted.inputs;
  spec.initializers = wanted.constants;
  spec.opsets = {{"", wanted.opset}, {"com.microsoft", 1}};
  for (const std::string& output : wanted.node.outputs) {
    if (!output.empty()) spec.outputs.push_back({output, DType::undefined, {}, false});
  }
  return spec;
}

void check(const Case& wanted) {
  CAPTURE(describe(wanted));
  const auto opened = open_spec(spec_of(wanted));
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
  const ResolvedModel& model = **opened;
  REQUIRE(wanted.symbolic.size() == model.outputs().size());
  for (size_t i = 0; i < wanted.symbolic.size(); ++i) {
    const Port& port = model.outputs()[i];
    CHECK(dtype_name(port.dtype) + std::string(" ") + (port.has_shape ? shape_text(port.shape) : "?") ==
          wanted.symbolic[i]);
  }
  ShapeBinder binder(model);
  std::vector<Shape> shapes;
  for (const PortSpec& port : wanted.inputs) {
    Shape& shape = shapes.emplace_back();
    for (const std::string& dim : port.dims) shape.push_back(kSizes.contains(dim) ? kSizes.at(dim) : std::stoll(dim));
  }
  std::vector<BoundInput> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) inputs.push_back({.dtype = wanted.inputs[i].dtype, .dims = shapes[i]});
  const Status bound = binder.bind(inputs);
  REQUIRE_MESSAGE(bound.ok(), (bound.ok() ? "" : bound.error().message()));
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    const ValueId id = model.outputs()[i].value;
    REQUIRE(binder.known(id));
    const auto dims = binder.shape(id);
    const std::string text = shape_text(Shape(dims.begin(), dims.end()));
    const std::string& expected = wanted.concrete.empty() ? wanted.symbolic[i] : wanted.concrete[i];
    CHECK(text == expected.substr(expected.find('[')));
  }
}

void check_all(const std::vector<Case>& cases) {
  for (const Case& wanted : cases) check(wanted);
}

void check_refused(const std::vector<Case>& cases) {
  for (const Case& wanted : cases) {
    CAPTURE(describe(wanted));
    const auto opened = open_spec(spec_of(wanted));
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().kind == ErrorKind::bad_model);
    CHECK(opened.error().phase == "resolve");
    CHECK_MESSAGE(opened.error().reason.find(wanted.symbolic[0]) != std::string::npos, opened.error().message());
  }
}

NodeSpec node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> attributes = {},
              std::vector<std::string> outputs = {"y"}, const std::string& domain = "") {
  return {op, std::move(inputs), std::move(outputs), std::move(attributes), domain};
}

TEST_CASE("element-wise with one input") {
  for (const char* op : {"Sigmoid", "Sqrt", "Erf", "Tanh", "Relu", "Neg"}) {
    check({node(op, {"x"}), {{"x", f32, {"b", "4"}}}, {}, {"float32 [b, 4]"}, {"[2, 4]"}});
    check_refused({{node(op, {"x"}), {{"x", boolean, {"b"}}}, {}, {"input 0 is bool"}}});
  }
  check({node("Gelu", {"x"}), {{"x", f32, {"b"}}}, {}, {"float32 [b]"}, {"[2]"}, 20});
  check({node("Gelu", {"x"}, {}, {"y"}, "com.microsoft"), {{"x", f32, {"b"}}}, {}, {"float32 [b]"}, {"[2]"}});
  check({node("Cast", {"x"}, {int_attr("to", 7)}), {{"x", f32, {"b"}}}, {}, {"int64 [b]"}, {"[2]"}});
  check({node("Identity", {"x"}), {{"x", f32, {"b", "3"}}}, {}, {"float32 [b, 3]"}, {"[2, 3]"}});
  check_refused({{node("Cast", {"x"}, {int_attr("to", 8)}), {{"x", f32, {"b"}}}, {}, {"cast to string"}}});
}

TEST_CASE("element-wise with broadcast") {
  const std::vector<PortSpec> two = {{"x", f32, {"b", "1", "4"}}, {"z", f32, {"s", "1"}}};
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max"}) {
    check({node(op, {"x", "z"}), two, {}, {"float32 [b, s, 4]"}, {"[2, 3, 4]"}});
    check_refused(
        {{node(op, {"x", "z"}), {{"x", f32, {"3"}}, {"z", f32, {"4"}}}, {}, {"[3] and [4] don't broadcast"}}});
  }
  check({node("Equal", {"x", "z"}), two, {}, {"bool [b, s, 4]"}, {"[2, 3, 4]"}});
  check({node("Where", {"c", "x", "z"}),
         {{"c", boolean, {"t", "1", "1", "1"}}, {"x", i64, {"b", "1", "4"}}, {"z", i64, {"s", "1"}}},
         {},
         {"int64 [t, b, s, 4]"},
         {"[8, 2, 3, 4]"}});
  check({node("Max", {"x", "z", "w"}),
         {{"x", i64, {"n"}}, {"z", i64, {"1"}}, {"w", i64, {}}},
         {},
         {"int64 [n]"},
         {"[6]"}});
  check({node("Add", {"x", "z"}), {{"x", f32, {"b"}}, {"z", f32, {"n", "2"}}}, {}, {"float32 [n, 2]"}, {"[6, 2]"}});
  check_refused(
      {{node("Add", {"x", "z"}), {{"x", f32, {"3"}}, {"z", i64, {"3"}}}, {}, {"input 1 is int64, expected float32"}},
       {node("Where", {"x", "x", "x"}), {{"x", f32, {"3"}}}, {}, {"input 0 is float32, expected bool"}}});
}

TEST_CASE("products") {
  check_all({
      {node("MatMul", {"x", "z"}),
       {{"x", f32, {"b", "s", "4"}}, {"z", f32, {"4", "7"}}},
       {},
       {"float32 [b, s, 7]"},
       {"[2, 3, 7]"}},
      {node("MatMul", {"x", "z"}),
       {{"x", f32, {"b", "1", "s", "4"}}, {"z", f32, {"5", "4", "n"}}},
       {},
       {"float32 [b, 5, s, n]"},
       {"[2, 5, 3, 6]"}},
      {node("MatMul", {"x", "z"}),
       {{"x", f32, {"4"}}, {"z", f32, {"b", "4", "7"}}},
       {},
       {"float32 [b, 7]"},
       {"[2, 7]"}},
      {node("MatMul", {"x", "z"}), {{"x", f32, {"4"}}, {"z", f32, {"4"}}}, {}, {"float32 []"}},
      {node("Gemm", {"x", "z", "c"}, {int_attr("transB", 1)}),
       {{"x", f32, {"b", "4"}}, {"z", f32, {"7", "4"}}, {"c", f32, {"7"}}},
       {},
       {"float32 [b, 7]"},
       {"[2, 7]"}},
      {node("Gemm", {"x", "z"}, {int_attr("transA", 1)}),
       {{"x", f32, {"4", "b"}}, {"z", f32, {"4", "7"}}},
       {},
       {"float32 [b, 7]"},
       {"[2, 7]"}},
      {node("MatMulNBits", {"x", "w", "scale", "", "", "bias"},
            {int_attr("K", 48), int_attr("N", 5), int_attr("block_size", 32)}, {"y"}, "com.microsoft"),
       {{"x", f32, {"b", "s", "48"}}},
       {zeros("w", u8, {5, 2, 16}), zeros("scale", f32, {10}), zeros("bias", f32, {5})},
       {"float32 [b, s, 5]"},
       {"[2, 3, 5]"}},
  });
  const NodeSpec nbits =
      node("MatMulNBits", {"x", "w", "scale"}, {int_attr("K", 32), int_attr("N", 5), int_attr("block_size", 32)}, {"y"},
           "com.microsoft");
  check_refused({
      {node("MatMul", {"x", "z"}), {{"x", f32, {"b", "5"}}, {"z", f32, {"4", "7"}}}, {}, {"5 against 4"}},
      {node("MatMul", {"x", "z"}), {{"x", f32, {}}, {"z", f32, {"4"}}}, {}, {"expected rank 1"}},
      {node("Gemm", {"x", "z"}), {{"x", f32, {"2", "3", "4"}}, {"z", f32, {"4", "7"}}}, {}, {"expected rank 2"}},
      {node("Gemm", {"x", "z", "c"}),
       {{"x", f32, {"2", "4"}}, {"z", f32, {"4", "7"}}, {"c", f32, {"3"}}},
       {},
       {"C of shape [3]"}},
      {nbits,
       {{"x", f32, {"b", "31"}}},
       {zeros("w", u8, {5, 1, 16}), zeros("scale", f32, {5})},
       {"expected 32 along axis 1"}},
      {nbits,
       {{"x", f32, {"b", "32"}}},
       {zeros("w", u8, {5, 1, 15}), zeros("scale", f32, {5})},
       {"B (input 1) has 75 elements"}},
      {nbits,
       {{"x", f32, {"b", "32"}}},
       {zeros("w", u8, {5, 1, 16}), zeros("scale", f32, {4})},
       {"scales (input 2) has 4"}},
      {node("MatMulNBits", {"x", "w", "w"}, {int_attr("K", 32), int_attr("N", 5), int_attr("block_size", 24)}, {"y"},
            "com.microsoft"),
       {{"x", f32, {"32"}}},
       {zeros("w", u8, {5, 1, 16})},
       {"block_size 24"}},
      {node("MatMulNBits", {"x", "w", "w"}, {int_attr("K", 32), int_attr("N", 5), int_attr("bits", 3)}, {"y"},
            "com.microsoft"),
       {{"x", f32, {"32"}}},
       {zeros("w", u8, {5, 1, 16})},
       {"bits 3"}},
  });
}

TEST_CASE("along axes") {
  const Tensor gain = zeros("gain", f32, {4});
  check_all({
      {node("Softmax", {"x"}, {int_attr("axis", 1)}),
       {{"x", f32, {"b", "s", "4"}}},
       {},
       {"float32 [b, s, 4]"},
       {"[2, 3, 4]"}},
      {node("ReduceSum", {"x", "axes"}, {int_attr("keepdims", 0)}),
       {{"x", i64, {"b", "s"}}},
       {i64s("axes", {1})},
       {"int64 [b]"},
       {"[2]"}},
      {node("ReduceSum", {"x"}), {{"x", f32, {"b", "s"}}}, {}, {"float32 [1, 1]"}},
      {node("ReduceSum", {"x"}, {int_attr("noop_with_empty_axes", 1)}),
       {{"x", f32, {"b"}}},
       {},
       {"float32 [b]"},
       {"[2]"}},
      {node("ReduceMean", {"x"}, {ints_attr("axes", {-1})}),
       {{"x", f32, {"b", "s"}}},
       {},
       {"float32 [b, 1]"},
       {"[2, 1]"}},
      {node("LayerNormalization", {"x", "gain", "gain"}, {}, {"y", "mean"}),
       {{"x", f32, {"b", "4"}}},
       {gain},
       {"float32 [b, 4]", "float32 [b, 1]"},
       {"[2, 4]", "[2, 1]"}},
      {node("SimplifiedLayerNormalization", {"x", "gain"}),
       {{"x", f32, {"b", "s", "4"}}},
       {gain},
       {"float32 [b, s, 4]"},
       {"[2, 3, 4]"}},
      {node("SkipSimplifiedLayerNormalization", {"x", "x", "gain"}, {}, {"y", "", "", "sum"}, "com.microsoft"),
       {{"x", f32, {"b", "s", "4"}}},
       {gain},
       {"float32 [b, s, 4]", "float32 [b, s, 4]"},
       {"[2, 3, 4]", "[2, 3, 4]"}},
  });
  check_refused({
      {node("Softmax", {"x"}), {{"x", f32, {"b", "s", "4"}}}, {}, {"before opset 13"}, {}, 11},
      {node("Softmax", {"x"}, {int_attr("axis", 3)}),
       {{"x", f32, {"b", "s", "4"}}},
       {},
       {"axis 3 of a tensor of rank 3"}},
      {node("LayerNormalization", {"x", "gain"}), {{"x", f32, {"b", "5"}}}, {gain}, {"input 1 of shape [4]"}},
      {node("SimplifiedLayerNormalization", {"x", "gain"}, {int_attr("axis", 0)}),
       {{"x", f32, {"4", "4"}}},
       {gain},
       {"axis 0"}},
      {node("SkipSimplifiedLayerNormalization", {"x", "z", "gain"}, {}, {"y"}, "com.microsoft"),
       {{"x", f32, {"2", "3", "4"}}, {"z", f32, {"2", "4", "4"}}},
       {gain},
       {"skip of shape [2, 4, 4]"}},
  });
}

std::vector<PortSpec> attention_inputs() {
  return {{"q", f32, {"b", "s", "32"}},
          {"k", f32, {"b", "s", "16"}},
          {"v", f32, {"b", "s", "16"}},
          {"pk", f32, {"b", "2", "p", "8"}},
          {"pv", f32, {"b", "2", "p", "8"}},
          {"lengths", i32, {"b"}},
          {"total", i32, {"1"}}};
}

TEST_CASE("attention and tables of decoders") {
  const std::vector<std::string> heads = {int_attr("num_heads", 4), int_attr("kv_num_heads", 2),
                                          int_attr("do_rotary", 1)};
  const std::vector<std::string> names = {"q", "k", "v", "pk", "pv", "lengths", "total", "cos", "sin"};
  const std::vector<Tensor> caches = {zeros("cos", f32, {64, 4}), zeros("sin", f32, {64, 4})};
  const std::vector<std::string> outputs = {"y", "kk", "vv"};
  const NodeSpec attention = node("GroupQueryAttention", names, heads, outputs, "com.microsoft");
  check({attention,
         attention_inputs(),
         caches,
         {"float32 [b, s, 32]", "float32 [b, 2, (p+s), 8]", "float32 [b, 2, (p+s), 8]"},
         {"[2, 3, 32]", "[2, 2, 8, 8]", "[2, 2, 8, 8]"}});
  const NodeSpec packed = node("GroupQueryAttention", {"q", "", "", "pk", "pv", "lengths", "total"},
                               {int_attr("num_heads", 4), int_attr("kv_num_heads", 2)}, outputs, "com.microsoft");
  std::vector<PortSpec> inputs = attention_inputs();
  inputs[0].dims[2] = "64";
  inputs.erase(inputs.begin() + 1, inputs.begin() + 3);
  check({packed,
         inputs,
         {},
         {"float32 [b, s, 32]", "float32 [b, 2, (p+s), 8]", "float32 [b, 2, (p+s), 8]"},
         {"[2, 3, 32]", "[2, 2, 8, 8]", "[2, 2, 8, 8]"}});
  for (const DType type : {f32, f16}) {
    for (const DType cache : {f32, f16}) {
      inputs = attention_inputs();
      for (size_t i : {0, 1, 2}) inputs[i].dtype = type;
      for (size_t i : {3, 4}) inputs[i].dtype = cache;
      const std::string row = dtype_name(type), past = dtype_name(cache);
      check({attention,
             inputs,
             {zeros("cos", type, {64, 4}), zeros("sin", type, {64, 4})},
             {row + " [b, s, 32]", past + " [b, 2, (p+s), 8]", past + " [b, 2, (p+s), 8]"},
             {"[2, 3, 32]", "[2, 2, 8, 8]", "[2, 2, 8, 8]"}});
    }
  }
  for (const size_t input : {1, 2, 4}) {
    inputs = attention_inputs();
    inputs[input].dtype = f16;
    check_refused({{attention, inputs, caches, {"float16"}}});
  }
  inputs = attention_inputs();
  inputs[3].dtype = inputs[4].dtype = DType::bf16;
  check_refused({{attention, inputs, caches, {"input 3"}}});
  check_refused(
      {{attention, attention_inputs(), {zeros("cos", f16, {64, 4}), zeros("sin", f16, {64, 4})}, {"input 7"}}});
  inputs = attention_inputs();
  inputs[1].dims[2] = "24";
  check_refused({{attention, inputs, caches, {"input 1 has shape [b, s, 24], expected 16"}}});
  inputs = attention_inputs();
  inputs[4].dims[1] = "3";
  check_refused({{attention, inputs, caches, {"input 4"}}});
  check_refused({{attention,
                  attention_inputs(),
                  {zeros("cos", f32, {64, 8}), zeros("sin", f32, {64, 8})},
                  {"expected 4 along axis 1"}}});
  check_refused({{node("GroupQueryAttention", {"q"}, heads, outputs, "com.microsoft"),
                  {{"q", f32, {"b", "s", "32"}}},
                  {},
                  {"is missing"}}});

  const std::vector<Tensor> table = {zeros("table", u8, {100, 32}), zeros("scale", f32, {100, 2})};
  const std::vector<PortSpec> ids = {{"ids", i64, {"b", "s"}}};
  check({node("GatherBlockQuantized", {"table", "ids", "scale"}, {int_attr("block_size", 32)}, {"y"}, "com.microsoft"),
         ids,
         table,
         {"float32 [b, s, 64]"},
         {"[2, 3, 64]"}});
  check_refused(
      {{node("GatherBlockQuantized", {"table", "ids", "scale"}, {int_attr("block_size", 16)}, {"y"}, "com.microsoft"),
        ids,
        table,
        {"expected 4 along axis 1"}}});
}

TEST_CASE("an attribute is honoured or refused by name, never ignored") {
  const std::vector<PortSpec> x = {{"x", f32, {"b", "4"}}};
  const Tensor gain = zeros("gain", f32, {4});
  for (const char* form : {"none", "tanh"})
    check({node("Gelu", {"x"}, {string_attr("approximate", form)}), x, {}, {"float32 [b, 4]"}, {"[2, 4]"}, 20});
  check({node("Cast", {"x"}, {int_attr("to", 7), int_attr("saturate", 0)}), x, {}, {"int64 [b, 4]"}, {"[2, 4]"}, 19});
  check({node("LayerNormalization", {"x", "gain"}, {int_attr("stash_type", 1)}),
         x,
         {gain},
         {"float32 [b, 4]"},
         {"[2, 4]"}});
  check_refused({
      {node("Gelu", {"x"}, {string_attr("approximate", "fast")}),
       x,
       {},
       {"attribute approximate is 'fast', expected one of: none tanh"},
       {},
       20},
      {node("Gelu", {"x"}, {int_attr("approximate", 1)}), x, {}, {"attribute approximate is not a string"}, {}, 20},
      {node("Gelu", {"x"}, {string_attr("approximate", "none")}, {"y"}, "com.microsoft"),
       x,
       {},
       {"attribute approximate is not supported"}},
      {node("Relu", {"x"}, {float_attr("alpha", 1)}), x, {}, {"attribute alpha is not supported"}},
      {node("Softmax", {"x"}, {int_attr("axis", 0), int_attr("axis", 1)}), x, {}, {"attribute axis is given twice"}},
      {node("Softmax", {"x"}, {float_attr("axis", 0)}), x, {}, {"attribute axis is not an integer"}},
      {node("LayerNormalization", {"x", "gain"}, {int_attr("stash_type", 16)}),
       x,
       {gain},
       {"attribute stash_type is '16', expected one of: 1"}},
      {node("ReduceSum", {"x"}, {ints_attr("axes", {0})}), x, {}, {"attribute axes is not supported"}, {}, 13},
      {node("ReduceMean", {"x"}, {ints_attr("axes", std::vector<int64_t>(65, 0))}),
       x,
       {},
       {"attribute axes has 65 elements"}},
      {node("ReduceMean", {"x"}, {ints_attr("axes", {0, -2})}), x, {}, {"axis 0 is given twice"}},
      {node("Split", {"x"}, {int_attr("num_outputs", 3), int_attr("axis", 1)}, {"y", "z"}),
       x,
       {},
       {"num_outputs is 3, it has 2"},
       {},
       18},
      {node("ConstantOfShape", {"shape"}, {tensor_attr("value", zeros("value", f32, {2}))}),
       {},
       {i64s("shape", {2})},
       {"value must have one element"}},
      {node("ConstantOfShape", {"shape"}, {tensor_attr("value", zeros("value", f32, {5000}))}),
       {},
       {i64s("shape", {2})},
       {"attribute value is not a small inline tensor"}},
  });
  for (const std::string& attribute : {int_attr("smooth_softmax", 1), int_attr("qk_output", 1), int_attr("causal", 0),
                                       int_attr("sliding_window_cache", 1), string_attr("k_quant_type", "PER_TENSOR"),
                                       int_attr("unidirectional", 1)}) {
    const std::vector<std::string> attributes = {int_attr("num_heads", 4), int_attr("kv_num_heads", 2), attribute};
    check_refused({{node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "lengths", "total"}, attributes,
                         {"y", "kk", "vv"}, "com.microsoft"),
                    attention_inputs(),
                    {},
                    {"attribute "}}});
  }
  check_refused(
      {{node("MatMulNBits", {"x", "w", "scale"},
             {int_attr("K", 32), int_attr("N", 5), int_attr("block_size", 32), int_attr("weight_prepacked", 1)}, {"y"},
             "com.microsoft"),
        {{"x", f32, {"b", "32"}}},
        {zeros("w", u8, {5, 1, 16}), zeros("scale", f32, {5})},
        {"attribute weight_prepacked is '1'"}}});
}

TEST_CASE("shapes") {
  const std::vector<PortSpec> x = {{"x", f32, {"b", "s", "4"}}};
  check_all({
      {node("Shape", {"x"}), x, {}, {"int64 [3]"}},
      {node("Shape", {"x"}, {int_attr("start", -1)}), x, {}, {"int64 [1]"}},
      {node("Reshape", {"x", "to"}), x, {i64s("to", {0, -1})}, {"float32 [b, (4*s)]"}, {"[2, 12]"}},
      {node("Reshape", {"x", "to"}), x, {i64s("to", {-1, 4})}, {"float32 [(b*s), 4]"}, {"[6, 4]"}},
      {node("Reshape", {"x", "to"}), x, {i64s("to", {0, 0, 2, -1})}, {"float32 [b, s, 2, 2]"}, {"[2, 3, 2, 2]"}},
      {node("Unsqueeze", {"x", "axes"}), x, {i64s("axes", {0, -1})}, {"float32 [1, b, s, 4, 1]"}, {"[1, 2, 3, 4, 1]"}},
      {node("Unsqueeze", {"x"}, {ints_attr("axes", {1})}), x, {}, {"float32 [b, 1, s, 4]"}, {"[2, 1, 3, 4]"}, 11},
      {node("Squeeze", {"z", "axes"}),
       {{"z", f32, {"b", "1", "1"}}},
       {i64s("axes", {-1})},
       {"float32 [b, 1]"},
       {"[2, 1]"}},
      {node("Squeeze", {"z"}), {{"z", f32, {"1", "5", "1"}}}, {}, {"float32 [5]"}},
      {node("Expand", {"z", "to"}),
       {{"z", f32, {"b", "1"}}},
       {i64s("to", {3, 1, 5})},
       {"float32 [3, b, 5]"},
       {"[3, 2, 5]"}},
      {node("ConstantOfShape", {"to"}, {tensor_attr("value", i64s("", {7}))}),
       {},
       {i64s("to", {100, 2})},
       {"int64 [100, 2]"}},
      {node("Range", {"from", "to", "step"}),
       {},
       {i64_scalar("from", 10), i64_scalar("to", 3), i64_scalar("step", -2)},
       {"int64 [4]"}},
  });
  check_refused({
      {node("Reshape", {"z", "to"}),
       {{"z", f32, {"5"}}},
       {i64s("to", {2, 3})},
       {"5 elements of shape [5] don't fill shape [2, 3]"}},
      {node("Reshape", {"z", "to"}), {{"z", f32, {"5"}}}, {i64s("to", {2, -1})}, {"don't fill"}},
      {node("Reshape", {"x", "to"}), x, {i64s("to", {-1, -1})}, {"two -1"}},
      {node("Reshape", {"x", "to"}), x, {i64s("to", {-2, 4})}, {"would have shape"}},
      {node("Unsqueeze", {"x", "axes"}), x, {i64s("axes", {0, 0})}, {"given twice"}},
      {node("Unsqueeze", {"x", "axes"}), x, {i64s("axes", {7})}, {"axis 7 of a tensor of rank 4"}},
      {node("Squeeze", {"x", "axes"}), x, {i64s("axes", {2})}, {"axis 2 of [b, s, 4] is not 1"}},
      {node("Expand", {"x", "to"}), x, {i64s("to", {3})}, {"doesn't expand to 3"}},
      {node("Range", {"a", "a", "z"}), {}, {i64_scalar("a", 1), i64_scalar("z", 0)}, {"delta is 0"}},
      {node("ConstantOfShape", {"to"}), {}, {i64s("to", {1LL << 40, 1LL << 40})}, {"too many elements"}},
  });
}

TEST_CASE("movement") {
  const std::vector<PortSpec> x = {{"x", f32, {"b", "s", "6"}}};
  auto slice = [](std::vector<int64_t> from, std::vector<int64_t> to, std::vector<int64_t> axes,
                  std::vector<int64_t> steps) {
    return std::vector<Tensor>{i64s("from", from), i64s("to", to), i64s("axes", axes), i64s("steps", steps)};
  };
  const NodeSpec cut = node("Slice", {"x", "from", "to", "axes", "steps"});
  check_all({
      {node("Transpose", {"x"}, {ints_attr("perm", {0, 2, 1})}), x, {}, {"float32 [b, 6, s]"}, {"[2, 6, 3]"}},
      {node("Transpose", {"x"}), x, {}, {"float32 [6, s, b]"}, {"[6, 3, 2]"}},
      {node("Concat", {"x", "z"}, {int_attr("axis", 1)}),
       {x[0], {"z", f32, {"b", "2", "6"}}},
       {},
       {"float32 [b, (2+s), 6]"},
       {"[2, 5, 6]"}},
      {cut, x, slice({1}, {INT64_MAX}, {2}, {2}), {"float32 [b, s, 3]"}, {"[2, 3, 3]"}},
      {cut, x, slice({-1}, {INT64_MIN}, {-1}, {-1}), {"float32 [b, s, 6]"}, {"[2, 3, 6]"}},
      {cut, x, slice({0, 4}, {INT32_MAX, -1}, {1, 2}, {1, 1}), {"float32 [b, s, 1]"}, {"[2, 3, 1]"}},
      {cut, x, slice({5}, {2}, {2}, {1}), {"float32 [b, s, 0]"}, {"[2, 3, 0]"}},
      {cut, x, slice({1}, {2}, {1}, {1}), {"float32 [b, ?, 6]"}, {"[2, 1, 6]"}},
      {node("Slice", {"x"}, {ints_attr("starts", {1}), ints_attr("ends", {3}), ints_attr("axes", {2})}),
       x,
       {},
       {"float32 [b, s, 2]"},
       {"[2, 3, 2]"},
       9},
      {node("Split", {"x"}, {int_attr("axis", -1)}, {"y", "z"}),
       x,
       {},
       {"float32 [b, s, 3]", "float32 [b, s, 3]"},
       {"[2, 3, 3]", "[2, 3, 3]"}},
      {node("Split", {"x", "sizes"}, {int_attr("axis", 2)}, {"y", "z"}),
       x,
       {i64s("sizes", {1, 5})},
       {"float32 [b, s, 1]", "float32 [b, s, 5]"},
       {"[2, 3, 1]", "[2, 3, 5]"}},
      {node("Split", {"x"}, {int_attr("axis", 2), int_attr("num_outputs", 4)}, {"a", "c", "d", "e"}),
       {{"x", f32, {"b", "1", "7"}}},
       {},
       {"float32 [b, 1, 2]", "float32 [b, 1, 2]", "float32 [b, 1, 2]", "float32 [b, 1, 1]"},
       {"[2, 1, 2]", "[2, 1, 2]", "[2, 1, 2]", "[2, 1, 1]"},
       18},
      {node("Gather", {"table", "ids"}),
       {{"ids", i64, {"b", "s"}}},
       {zeros("table", DType::f16, {9, 4})},
       {"float16 [b, s, 4]"},
       {"[2, 3, 4]"}},
      {node("Gather", {"x", "at"}, {int_attr("axis", 1)}), x, {i64_scalar("at", -1)}, {"float32 [b, 6]"}, {"[2, 6]"}},
  });
  check_refused({
      {node("Transpose", {"x"}, {ints_attr("perm", {0, 0, 1})}), x, {}, {"not a permutation"}},
      {node("Transpose", {"x"}, {ints_attr("perm", {0, 1})}), x, {}, {"perm of 2 axes"}},
      {node("Concat", {"x", "z"}, {int_attr("axis", 1)}),
       {x[0], {"z", f32, {"b", "2", "5"}}},
       {},
       {"differ outside axis 1"}},
      {node("Concat", {"x", "z"}, {int_attr("axis", 1)}), {x[0], {"z", f32, {"b", "2"}}}, {}, {"expected rank 3"}},
      {node("Concat", {"x", ""}, {int_attr("axis", 1)}), x, {}, {"input 1 is missing"}},
      {cut, x, slice({1}, {2}, {1}, {0}), {"step is 0"}},
      {cut, x, slice({1, 1}, {2}, {1}, {1}), {"different lengths"}},
      {node("Split", {"x"}, {int_attr("axis", 2)}, {"a", "c", "d", "e"}), x, {}, {"don't split into 4"}},
      {node("Split", {"x", "sizes"}, {int_attr("axis", 2)}, {"y", "z"}), x, {i64s("sizes", {1, 4})}, {"add up to 5"}},
      {node("Gather", {"x", "at"}, {int_attr("axis", 2)}), x, {i64_scalar("at", 6)}, {"index 6 is outside"}},
      {node("Gather", {"x", "at"}), {x[0], {"at", f32, {"1"}}}, {}, {"input 1 is float32"}},
  });
}

// A chain of shape arithmetic whose result sizes a ConstantOfShape: its shape is what the contents came to.
std::string followed(std::vector<NodeSpec> nodes, std::vector<Tensor> constants, const std::string& last) {
  ModelSpec spec;
  spec.inputs = {{"x", f32, {"b", "s", "6"}}};
  spec.initializers = std::move(constants);
  spec.nodes = {{"Shape", {"x"}, {"shape"}}};
  for (NodeSpec& node : nodes) spec.nodes.push_back(std::move(node));
  spec.nodes.push_back({"ConstantOfShape", {last}, {"y"}});
  spec.outputs = {{"y", DType::undefined, {}, false}};
  const auto opened = open_spec(spec);
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
  ShapeBinder binder(**opened);
  const Shape dims = {2, 3, 6};
  const BoundInput input{.dtype = f32, .dims = dims};
  const Status bound = binder.bind({&input, 1});
  REQUIRE_MESSAGE(bound.ok(), (bound.ok() ? "" : bound.error().message()));
  const auto shape = binder.shape((*opened)->outputs()[0].value);
  return shape_text((*opened)->outputs()[0].shape) + " " + shape_text(Shape(shape.begin(), shape.end()));
}

TEST_CASE("contents are followed through shape arithmetic") {
  const Tensor zero = i64s("zero", {0}), one = i64s("one", {1}), two = i64s("two", {2}), minus = i64s("minus", {-1});
  CHECK(followed({}, {}, "shape") == "[b, s, 6] [2, 3, 6]");
  CHECK(followed({{"Gather", {"shape", "one"}, {"s"}}, {"Mul", {"s", "two"}, {"d"}}}, {one, two}, "d") ==
        "[(2*s)] [6]");
  CHECK(followed({{"Slice", {"shape", "zero", "two"}, {"d"}}}, {zero, two}, "d") == "[b, s] [2, 3]");
  CHECK(followed({{"Slice", {"shape", "minus", "least", "zero", "minus"}, {"d"}}},
                 {zero, minus, i64s("least", {INT64_MIN})}, "d") == "[6, s, b] [6, 3, 2]");
  CHECK(followed({{"Split", {"shape", "sizes"}, {"d", "e"}, {int_attr("axis", 0)}}}, {i64s("sizes", {1, 2})}, "e") ==
        "[s, 6] [3, 6]");
  CHECK(followed({{"Concat", {"one", "shape", "two"}, {"d"}, {int_attr("axis", 0)}}}, {one, two}, "d") ==
        "[1, b, s, 6, 2] [1, 2, 3, 6, 2]");
  CHECK(followed({{"Cast", {"shape"}, {"n"}, {int_attr("to", 6)}}, {"Cast", {"n"}, {"d"}, {int_attr("to", 7)}}}, {},
                 "d") == "[b, s, 6] [2, 3, 6]");
  CHECK(followed({{"Equal", {"shape", "two"}, {"is"}}, {"Where", {"is", "one", "shape"}, {"d"}}}, {one, two}, "d") ==
        "[?, ?, 6] [1, 3, 6]");
  CHECK(followed({{"Sub", {"shape", "one"}, {"d"}}}, {one}, "d") == "[(b-1), (s-1), 5] [1, 2, 5]");
  CHECK(followed({{"Div", {"shape", "two"}, {"a"}}, {"Max", {"a", "two"}, {"d"}}}, {two}, "d") ==
        "[?, ?, 3] [2, 2, 3]");
  CHECK(followed({{"Neg", {"shape"}, {"a"}}, {"Neg", {"a"}, {"d"}}}, {}, "d").ends_with("[2, 3, 6]"));
  CHECK(followed({{"Min", {"shape", "two"}, {"d"}}}, {two}, "d") == "[?, ?, 2] [2, 2, 2]");
  CHECK(followed({{"Gather", {"shape", "scalar"}, {"s"}},
                  {"Unsqueeze", {"s", "zero"}, {"u"}},
                  {"Squeeze", {"u", "zero"}, {"q"}},
                  {"Reshape", {"q", "minus"}, {"d"}}},
                 {zero, minus, i64_scalar("scalar", 1)}, "d") == "[s] [3]");
  CHECK(followed({{"Range", {"scalar", "five", "scalar"}, {"r"}}, {"Expand", {"r", "one"}, {"d"}}},
                 {one, i64_scalar("scalar", 1), i64_scalar("five", 5)}, "d") == "[1, 2, 3, 4] [1, 2, 3, 4]");
  CHECK(followed({{"ConstantOfShape", {"two"}, {"d"}, {tensor_attr("value", i64s("", {7}))}}}, {two}, "d") ==
        "[7, 7] [7, 7]");
  CHECK(followed({{"Expand", {"two", "three"}, {"d"}}}, {two, i64s("three", {3})}, "d") == "[2, 2, 2] [2, 2, 2]");
  CHECK(followed({{"Add", {"shape", "shape"}, {"a"}}, {"Transpose", {"a"}, {"d"}}}, {}, "d").ends_with("[4, 6, 12]"));
}

TEST_CASE("a stated total length must be past and new together") {
  ModelSpec spec;
  spec.inputs = {{"q", f32, {"b", "s", "32"}},
                 {"pk", f32, {"b", "4", "p", "8"}},
                 {"pv", f32, {"b", "4", "p", "8"}},
                 {"lengths", i32, {"b"}},
                 {"mask", i64, {"b", "t"}}};
  spec.initializers = {i64_scalar("one", 1)};
  spec.nodes = {{"Shape", {"mask"}, {"shape"}},
                {"Gather", {"shape", "one"}, {"length"}},
                {"Cast", {"length"}, {"total"}, {int_attr("to", 6)}},
                node("GroupQueryAttention", {"q", "q", "q", "pk", "pv", "lengths", "total"},
                     {int_attr("num_heads", 4), int_attr("kv_num_heads", 4)}, {"y", "kk", "vv"}, "com.microsoft")};
  spec.outputs = {{"kk", f32, {}, false}};
  const auto opened = open_spec(spec);
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
  ShapeBinder binder(**opened);
  const Shape q = {1, 3, 32}, past = {1, 4, 5, 8}, lengths = {1};
  for (const int64_t total : {8, 7}) {
    const Shape mask = {1, total};
    const BoundInput inputs[] = {{f32, q}, {f32, past}, {f32, past}, {i32, lengths}, {i64, mask}};
    const Status bound = binder.bind(inputs);
    CHECK(bound.ok() == (total == 8));
    if (!bound.ok()) CHECK(bound.error().reason.find("total_sequence_length is 7, expected 8") != std::string::npos);
  }
}

}  // namespace

TEST_SUITE_END();
