// Damaged and impossible files are refused with kind, phase, subject and reason; never a crash, never an exception.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>

#include "ompipe/model/reader.h"
#include "ompipe/model/resolver.h"
#include "ompipe/model/shape_binder.h"
#include "onnx_builder.h"

namespace {

using namespace ompipe;
using namespace ompipe::model;
using namespace ompipe::test;

// One of everything: all tensor forms, attributes, subgraphs dead and live, symbolic shapes.
ModelSpec varied() {
  ModelSpec inner;
  inner.nodes = {{"Constant", {}, {"c"}, {tensor_attr("value", zeros("", DType::f32, {2}))}}};
  ModelSpec then, other, body;
  then.nodes = {{"Relu", {"d"}, {"r"}}};
  then.outputs = {{"r", DType::f32, {}, false}};
  other.initializers = {zeros("w3", DType::f32, {4})};
  other.nodes = {{"Add", {"d", "w3"}, {"r"}}};
  other.outputs = then.outputs;
  body.inputs = {{"i", DType::i64, {}}, {"go", DType::boolean, {}}, {"s", DType::f32, {"batch", "4"}}};
  body.nodes = {{"Concat", {"s", "d"}, {"longer"}, {int_attr("axis", 0)}}, {"Identity", {"go"}, {"on"}}};
  body.outputs = {{"on", DType::boolean, {}, false}, {"longer", DType::f32, {}, false}, {"i", DType::i64, {}, false}};
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"batch", "4"}}, {"w2", DType::f32, {"4"}}, {"flag", DType::boolean, {}}};
  spec.initializers = {
      zeros("w", DType::f32, {4, 4}),
      zeros("w2", DType::f32, {4}),
      {.name = "f", .dims = {4}, .form = Form::floats, .numbers = {1, 2, 3, 4}},
      {.name = "axes", .dtype = DType::i64, .dims = {1}, .form = Form::int64s, .numbers = {0}},
      {.name = "wanted", .dtype = DType::i64, .dims = {3}, .form = Form::int64s_loose, .numbers = {1, -1, 4}},
      {.name = "e", .dims = {4}, .form = Form::external, .external = {{"location", "w.bin"}, {"offset", "16"}}}};
  spec.nodes = {{"MatMul", {"x", "w"}, {"a"}},
                {"Add", {"a", "f"}, {"b"}},
                {"Mul", {"b", "e"}, {"c"}},
                {"Add", {"c", "w2"}, {"d"}},
                {"Softmax", {"d"}, {"s"}, {int_attr("axis", -1)}},
                {"Unsqueeze", {"s", "axes"}, {"u"}},
                {"Reshape", {"u", "wanted"}, {"y"}},
                {"Shape", {"y"}, {"sh"}},
                {"Constant", {}, {"one"}, {ints_attr("value_ints", {1})}},
                {"Gather", {"sh", "one"}, {"length"}, {int_attr("axis", 0)}},
                {"If", {"x"}, {"dead"}, {graph_attr("then_branch", graph_message(inner))}},
                {"If",
                 {"flag"},
                 {"picked"},
                 {graph_attr("then_branch", graph_message(then)), graph_attr("else_branch", graph_message(other))}},
                {"Loop", {"axes", "", "picked"}, {"looped", "passes"}, {graph_attr("body", graph_message(body))}}};
  spec.outputs = {{"y", DType::f32, {"1", "batch", "4"}},
                  {"length", DType::i64, {"1"}},
                  {"looped", DType::f32, {}, false},
                  {"passes", DType::i64, {}, false}};
  return spec;
}

Error error_of(const std::string& bytes) {
  TempFolder folder;
  const auto model = read_model(folder.write("m.onnx", bytes), {});
  REQUIRE_FALSE(model.ok());
  return model.error();
}

ModelSpec with(Tensor tensor) {
  ModelSpec spec;
  spec.initializers = {std::move(tensor)};
  return spec;
}

}  // namespace

TEST_SUITE_BEGIN("damage");

namespace {

TEST_CASE("files that can't be opened are the environment's fault") {
  TempFolder folder;
  const auto missing = read_model(folder.path("none.onnx"), {});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().kind == ErrorKind::environment);
  const auto directory = read_model(folder.path(), {});
  REQUIRE_FALSE(directory.ok());
  CHECK(directory.error().kind == ErrorKind::environment);
}

TEST_CASE("empty, foreign and cut files") {
  CHECK(error_of("").kind == ErrorKind::bad_model);
  const Error foreign = error_of("this is a text, not a model\n");
  CHECK(foreign.kind == ErrorKind::bad_model);
  CHECK(foreign.phase == "open");
  CHECK(foreign.offset.has_value());
  std::string cut = model_bytes(with(zeros("w", DType::f32, {64})));
  cut.resize(cut.size() / 2);
  const Error truncated = error_of(cut);
  CHECK(truncated.kind == ErrorKind::bad_model);
  CHECK(truncated.reason.find("protobuf") != std::string::npos);
  CHECK(truncated.offset.has_value());
}

TEST_CASE("tensors whose bytes don't fit their dims") {
  Tensor tensor = zeros("w", DType::f32, {4});
  tensor.raw.pop_back();
  Error error = error_of(model_bytes(with(tensor)));
  CHECK(error.kind == ErrorKind::bad_model);
  CHECK(error.subject == "w");
  CHECK(error.length == 15);
  CHECK(error.reason.find("16 bytes") != std::string::npos);

  error = error_of(
      model_bytes(with({.name = "w", .dtype = DType::i64, .dims = {9}, .form = Form::int64s, .numbers = {1, 2}})));
  CHECK(error.reason.find("9 varints") != std::string::npos);
  error = error_of(model_bytes(with({.name = "w", .dims = {2}, .form = Form::none})));
  CHECK(error.reason.find("8 bytes") != std::string::npos);
  error = error_of(model_bytes(with({.name = "w", .dims = {3}, .form = Form::floats_loose, .numbers = {1, 2}})));
  CHECK(error.got == 8);
  std::vector<double> many(2000, 1.0);
  error = error_of(model_bytes(with({.name = "w", .dims = {2000}, .form = Form::floats_loose, .numbers = many})));
  CHECK(error.reason.find("packed") != std::string::npos);
}

TEST_CASE("impossible tensors") {
  CHECK(error_of(model_bytes(with({.name = "w", .dtype = DType::undefined, .dims = {}, .form = Form::none}))).subject ==
        "w");
  Tensor deep = zeros("w", DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(error_of(model_bytes(with(deep))).reason.find("rank 9") != std::string::npos);
}

TEST_CASE("names that clash or are missing") {
  ModelSpec spec;
  spec.initializers = {zeros("w", DType::f32, {1}), zeros("w", DType::f32, {1})};
  CHECK(error_of(model_bytes(spec)).reason.find("two initializers") != std::string::npos);
  spec = {};
  spec.nodes = {{"Relu", {"nowhere"}, {"y"}, {}, "", "the node"}};
  Error error = error_of(model_bytes(spec));
  CHECK(error.subject == "the node");
  CHECK(error.reason.find("'nowhere'") != std::string::npos);
  spec = {};
  spec.inputs = {{"x"}};
  spec.nodes = {{"Relu", {"x"}, {"x"}}};
  CHECK(error_of(model_bytes(spec)).reason.find("defined already") != std::string::npos);
  spec = {};
  spec.outputs = {{"y"}};
  CHECK(error_of(model_bytes(spec)).subject == "y");
}

TEST_CASE("subgraphs nested without end") {
  std::string graph;
  for (int i = 0; i < 40; ++i) {
    ModelSpec spec;
    spec.nodes = {{"If", {}, {"y"}, {graph_attr("then_branch", graph)}}};
    graph = graph_message(spec);
  }
  ModelSpec spec;
  spec.nodes = {{"If", {}, {"y"}, {graph_attr("then_branch", graph)}}};
  CHECK(error_of(model_bytes(spec)).reason.find("nested") != std::string::npos);
}

}  // namespace

TEST_SUITE_END();

TEST_SUITE_BEGIN("mutation");

namespace {

// Reads, resolves, freezes and binds whatever the bytes say. What comes out is a model or an Error; the sanitizers
// watch the rest.
bool survives(const TempFolder& folder, const std::string& bytes) {
  const auto model = open_model(folder.write("m.onnx", bytes), {});
  if (!model.ok()) {
    CHECK((model.error().kind == ErrorKind::bad_model || model.error().kind == ErrorKind::environment));
    CHECK_FALSE(model.error().message().empty());
    return false;
  }
  ShapeBinder binder(**model);
  std::vector<BoundInput> inputs;
  const std::vector<int64_t> dims = {3, 4}, row = {4};
  for (const Port& port : (*model)->inputs()) {
    inputs.push_back({.dtype = port.dtype, .dims = port.shape.size() == 1 ? row : dims, .contents = nullptr});
  }
  (void)binder.bind(inputs).ok();
  return true;
}

TEST_CASE("the model that is mutated is right") {
  TempFolder folder;
  folder.write("w.bin", std::string(64, 'x'));
  CHECK(survives(folder, model_bytes(varied())));
}

TEST_CASE("truncated at every byte") {
  TempFolder folder;
  folder.write("w.bin", std::string(64, 'x'));
  const std::string whole = model_bytes(varied());
  for (size_t length = 0; length < whole.size(); ++length) survives(folder, whole.substr(0, length));
}

TEST_CASE("bytes flipped, inserted, removed and copied") {
  TempFolder folder;
  folder.write("w.bin", std::string(64, 'x'));
  const std::string whole = model_bytes(varied());
  std::mt19937 random(20240607);
  int refused = 0;
  constexpr int kCases = 6000;
  for (int i = 0; i < kCases; ++i) {
    std::string bytes = whole;
    for (int edits = 1 + int(random() % 3); edits > 0; --edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = char(random());
          break;
        case 1:
          bytes[at] ^= char(1 << random() % 8);
          break;
        case 2:
          bytes.insert(at, 1, char(random()));
          break;
        case 3:
          bytes.erase(at, 1 + random() % 4);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
          break;
      }
    }
    refused += !survives(folder, bytes);
  }
  CHECK(refused > kCases / 4);
}

}  // namespace

TEST_SUITE_END();
