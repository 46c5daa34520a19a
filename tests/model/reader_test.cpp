// Every form in which a file holds a tensor becomes a descriptor of the right range, or a small constant.
#include "ompipe/model/reader.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "ompipe/model/decode.h"
#include "onnx_builder.h"

TEST_SUITE_BEGIN("reader");

namespace {

using namespace ompipe;
using namespace ompipe::model;
using namespace ompipe::test;

struct Opened {
  ModelGraph graph;
  std::string bytes;  // of the .onnx file

  const Value& value(const std::string& name) const {
    for (const Value& value : graph.values) {
      if (value.name == name) return value;
    }
    FAIL("no value " << name);
    return graph.values[0];
  }
  const Payload& payload(const std::string& name) const { return graph.payloads.at(size_t(value(name).payload)); }
  std::string stored(const std::string& name) const { return bytes.substr(payload(name).offset, payload(name).length); }
};

Opened opened(const ModelSpec& spec) {
  TempFolder folder;
  Opened result;
  result.bytes = model_bytes(spec);
  auto graph = read_model(folder.write("m.onnx", result.bytes), {});
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message()));
  result.graph = std::move(*graph);
  return result;
}

ModelSpec with(std::vector<Tensor> initializers) {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"batch", "4"}}};
  spec.outputs = {{"x", DType::f32, {"batch", "4"}}};
  spec.initializers = std::move(initializers);
  return spec;
}

TEST_CASE("raw_data is a range of the .onnx file") {
  const std::string raw = f32_bytes({1, 2, 3, 4});
  const Opened model = opened(with({{.name = "w", .dims = {2, 2}, .raw = raw}}));
  CHECK(model.value("w").source == ValueSource::initializer);
  CHECK(model.payload("w").file == 0);
  CHECK(model.payload("w").encoding == Encoding::raw);
  CHECK(model.payload("w").dims == Shape{2, 2});
  CHECK(model.payload("w").bytes() == 16);
  CHECK(model.stored("w") == raw);
}

TEST_CASE("packed fixed-width fields are raw ranges") {
  const Opened model =
      opened(with({{.name = "f", .dims = {3}, .form = Form::floats, .numbers = {1, -2, 0.5}},
                   {.name = "d", .dtype = DType::f64, .dims = {1}, .form = Form::doubles, .numbers = {7}}}));
  CHECK(model.stored("f") == f32_bytes({1, -2, 0.5}));
  CHECK(model.payload("f").encoding == Encoding::raw);
  CHECK(model.payload("d").length == 8);
}

TEST_CASE("packed varints keep their encoding, and decode") {
  const std::vector<double> numbers = {1, -1, 300, -70000};
  const Opened model =
      opened(with({{.name = "i", .dtype = DType::i64, .dims = {4}, .form = Form::int64s, .numbers = numbers},
                   {.name = "b", .dtype = DType::i8, .dims = {2}, .form = Form::int32s, .numbers = {-3, 5}}}));
  REQUIRE(model.payload("i").encoding == Encoding::packed_varint);
  const std::string stored = model.stored("i");
  int64_t decoded[4];
  const auto* bytes = reinterpret_cast<const uint8_t*>(stored.data());
  REQUIRE(decode_varints({bytes, stored.size()}, DType::i64, 4, reinterpret_cast<uint8_t*>(decoded), "i").ok());
  for (int i = 0; i < 4; ++i) CHECK(decoded[i] == int64_t(numbers[size_t(i)]));
  CHECK_FALSE(decode_varints({bytes, stored.size()}, DType::i64, 3, reinterpret_cast<uint8_t*>(decoded), "i").ok());
  CHECK_FALSE(decode_varints({bytes, stored.size() - 1}, DType::i64, 4, reinterpret_cast<uint8_t*>(decoded), "i").ok());

  const std::string narrow = model.stored("b");
  int8_t small[2];
  REQUIRE(decode_varints({reinterpret_cast<const uint8_t*>(narrow.data()), narrow.size()}, DType::i8, 2,
                         reinterpret_cast<uint8_t*>(small), "b")
              .ok());
  CHECK(small[0] == -3);
  CHECK(small[1] == 5);
}

TEST_CASE("elements of one field each, or in pieces, are decoded when they are few") {
  const Opened model = opened(
      with({{.name = "l", .dtype = DType::i64, .dims = {3}, .form = Form::int64s_loose, .numbers = {4, -5, 6}},
            {.name = "p", .dtype = DType::i64, .dims = {3}, .form = Form::int64s_two_pieces, .numbers = {7, 8, -9}},
            {.name = "f", .dims = {2}, .form = Form::floats_loose, .numbers = {1, 2}}}));
  auto constant = [&](const std::string& name) { return model.graph.constants.at(size_t(model.value(name).constant)); };
  CHECK(model.value("l").source == ValueSource::constant);
  CHECK(constant("l").as_int64() == std::vector<int64_t>{4, -5, 6});
  CHECK(constant("p").as_int64() == std::vector<int64_t>{7, 8, -9});
  CHECK(constant("f").bytes.size() == 8);
}

TEST_CASE("tensors and numbers in Constant nodes are initializers") {
  ModelSpec spec = with({});
  spec.nodes = {{"Constant", {}, {"t"}, {tensor_attr("value", {.name = "", .dims = {2}, .raw = f32_bytes({1, 2})})}},
                {"Constant", {}, {"i"}, {int_attr("value_int", 5)}},
                {"Constant", {}, {"is"}, {ints_attr("value_ints", {5, 6})}},
                {"Constant", {}, {"f"}, {float_attr("value_float", 0.5f)}},
                {"Constant", {}, {"fs"}, {floats_attr("value_floats", {1, 2, 3})}},
                {"Constant", {}, {"z"}, {empty_attr("value_int", 2)}}};
  const Opened model = opened(spec);
  CHECK(model.graph.nodes.empty());
  CHECK(model.graph.metadata.nodes == 6);
  CHECK(model.value("t").source == ValueSource::initializer);
  CHECK(model.stored("t") == f32_bytes({1, 2}));
  CHECK(model.payload("t").name == "t");
  auto constant = [&](const std::string& name) { return model.graph.constants.at(size_t(model.value(name).constant)); };
  CHECK(constant("i").as_int64() == std::vector<int64_t>{5});
  CHECK(constant("i").dims.empty());
  CHECK(constant("is").as_int64() == std::vector<int64_t>{5, 6});
  CHECK(constant("f").dtype == DType::f32);
  CHECK(constant("fs").dims == Shape{3});
  CHECK(constant("z").as_int64() == std::vector<int64_t>{0});
}

TEST_CASE("an initializer that is an input can be fed from IR version 4 on") {
  ModelSpec spec = with({zeros("w", DType::f32, {4})});
  spec.inputs.push_back({"w", DType::f32, {"4"}});
  CHECK(opened(spec).value("w").source == ValueSource::overridable);
  CHECK(opened(spec).graph.inputs.size() == 2);
  spec.ir_version = 3;
  CHECK(opened(spec).value("w").source == ValueSource::initializer);
  CHECK(opened(spec).graph.inputs.size() == 1);
}

TEST_CASE("subgraphs are walked for their tensors") {
  ModelSpec inner;
  inner.nodes = {{"Constant", {}, {"c"}, {tensor_attr("value", zeros("", DType::f32, {8}))}}};
  inner.initializers = {zeros("w", DType::f32, {16})};
  ModelSpec spec = with({});
  spec.nodes = {{"If", {"x"}, {"y"}, {graph_attr("then_branch", graph_message(inner))}, "", "choose"}};
  const Opened model = opened(spec);
  REQUIRE(model.graph.nodes[0].graphs.size() == 1);
  CHECK(model.graph.graphs[0].name == "then_branch");
  CHECK(model.graph.graphs[0].owner == 0);
  CHECK(model.graph.payloads.size() == 2);
}

TEST_CASE("attributes of every kind, and names of nodes") {
  ModelSpec spec = with({});
  spec.nodes = {{"Op",
                 {"x", ""},
                 {"y"},
                 {int_attr("i", -3), float_attr("f", 2.5f), string_attr("s", "text"), ints_attr("is", {1, -2}),
                  floats_attr("fs", {0.5f}), tensor_attr("t", i64s("", {9}))}}};
  const Opened model = opened(spec);
  const Node& node = model.graph.nodes[0];
  CHECK(node.name == "Op_0");
  CHECK(node.opset == 17);
  CHECK(node.inputs == std::vector<ValueId>{0, kNone});
  CHECK(node.int_attribute("i", 0) == -3);
  CHECK(node.int_attribute("none", 7) == 7);
  CHECK(node.float_attribute("f", 0) == 2.5f);
  CHECK(node.string_attribute("s", "") == "text");
  CHECK(node.ints_attribute("is") == std::vector<int64_t>{1, -2});
  CHECK(std::get<ConstantTensor>(*node.attribute("t")).as_int64() == std::vector<int64_t>{9});
  CHECK(model.graph.payloads.empty());
}

TEST_CASE("metadata") {
  const Opened model = opened(with({}));
  CHECK(model.graph.metadata.ir_version == 8);
  CHECK(model.graph.metadata.producer_name == "ompipe tests");
  CHECK(model.graph.metadata.graph_name == "test graph");
  CHECK(model.graph.metadata.opsets[0] == std::pair<std::string, int64_t>("", 17));
  CHECK(model.graph.metadata.bytes == model.bytes.size());
  CHECK(shape_text(model.graph.inputs[0].shape) == "[batch, 4]");
}

}  // namespace

TEST_SUITE_END();
