// Graphs inside nodes: names seen from outside, order, liveness, shapes, the manifest, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>

#include "ompipe/model/reader.h"
#include "ompipe/model/resolver.h"
#include "ompipe/model/shape_binder.h"
#include "onnx_builder.h"

TEST_SUITE_BEGIN("flow");

namespace {

using namespace ompipe;
using namespace ompipe::model;
using namespace ompipe::test;

PortSpec any(const std::string& name, DType dtype = DType::f32) { return {name, dtype, {}, false}; }

std::shared_ptr<const ResolvedModel> resolved(const ModelSpec& spec) {
  auto model = open_spec(spec);
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  return *model;
}

std::string refusal(const ModelSpec& spec) {
  auto model = open_spec(spec);
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().kind == ErrorKind::bad_model);
  CHECK(model.error().message().find('\n') == std::string::npos);
  return model.error().subject + ": " + model.error().reason;
}

ModelSpec branch(std::vector<NodeSpec> nodes, const std::string& output) {
  ModelSpec spec;
  spec.nodes = std::move(nodes);
  spec.outputs = {any(output)};
  return spec;
}

NodeSpec choice(const ModelSpec& then, const ModelSpec& other, std::vector<std::string> outputs = {"y"}) {
  return {"If",
          {"c"},
          std::move(outputs),
          {graph_attr("then_branch", graph_message(then)), graph_attr("else_branch", graph_message(other))},
          "",
          "choose"};
}

ModelSpec around(NodeSpec node) {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n", "4"}}, {"c", DType::boolean, {}}};
  spec.nodes = {std::move(node)};
  spec.outputs = {any("y")};
  return spec;
}

// A body that doubles what it carries and gives it as a scan too.
ModelSpec doubling() {
  ModelSpec body;
  body.inputs = {{"i", DType::i64, {}}, {"go", DType::boolean, {}}, any("s")};
  body.nodes = {{"Add", {"s", "s"}, {"d"}}, {"Identity", {"go"}, {"go_on"}}};
  body.outputs = {any("go_on", DType::boolean), any("d"), any("d")};
  return body;
}

ModelSpec looping(const ModelSpec& body, std::vector<std::string> inputs = {"m", "", "x"}) {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n", "4"}}, {"m", DType::i64, {}}};
  spec.nodes = {{"Loop", std::move(inputs), {"y", "all"}, {graph_attr("body", graph_message(body))}, "", "loop"}};
  spec.outputs = {any("y"), any("all")};
  return spec;
}

TEST_CASE("a branch sees the names around it; its own hide them; nodes follow the one that holds them") {
  ModelSpec inner = branch({{"Relu", {"x"}, {"r"}}}, "r");
  ModelSpec then =
      branch({{"Neg", {"x"}, {"before"}}, choice(inner, branch({{"Neg", {"before"}, {"r"}}}, "r"), {"z"})}, "z");
  ModelSpec other = branch({{"Add", {"outer", "w"}, {"x"}}, {"Neg", {"x"}, {"e"}}}, "e");
  other.initializers = {zeros("w", DType::f32, {4})};
  ModelSpec spec = around(choice(then, other));
  spec.nodes.insert(spec.nodes.begin(), {"Relu", {"x"}, {"outer"}});
  const auto model = resolved(spec);
  REQUIRE(model->nodes().size() == 8);
  CHECK(model->node(1).name == "choose");
  REQUIRE(model->node(1).graphs.size() == 2);
  const Subgraph& first = model->graph(model->node(1).graph_attribute("then_branch"));
  const Subgraph& second = model->graph(model->node(1).graph_attribute("else_branch"));
  CHECK(first.begin == 2);
  CHECK(first.end == 6);
  CHECK(second.begin == 6);
  CHECK(second.end == 8);
  CHECK(after_node(1, model->nodes(), model->graphs()) == 8);
  // The else branch's second node reads its own "x".
  CHECK(model->node(7).inputs[0] == model->node(6).outputs[0]);
  CHECK(model->node(6).inputs[0] == model->node(0).outputs[0]);
  CHECK(model->metadata().nodes == 8);
}

TEST_CASE("nodes that hold graphs go behind what those need; what nobody needs goes") {
  ModelSpec then = branch({{"Neg", {"late"}, {"t"}}, {"Neg", {"unused input"}, {"dead"}}}, "t");
  then.initializers = {zeros("unused input", DType::f32, {64})};
  ModelSpec spec = around(choice(then, branch({{"Relu", {"x"}, {"e"}}}, "e")));
  spec.nodes.push_back({"Relu", {"x"}, {"late"}});
  const auto model = resolved(spec);
  REQUIRE(model->nodes().size() == 4);
  CHECK(model->node(0).op_type == "Relu");
  CHECK(model->node(1).op_type == "If");
  CHECK(model->node(2).op_type == "Neg");
  CHECK(model->avoided_bytes(AvoidedReason::dead) == 256);
}

TEST_CASE("a dead If takes its graphs and their weights along") {
  ModelSpec then = branch({{"Add", {"x", "w"}, {"t"}}}, "t");
  then.initializers = {zeros("w", DType::f32, {4})};
  ModelSpec spec = around(choice(then, then, {"nobody"}));
  spec.nodes.push_back({"Relu", {"x"}, {"y"}});
  const auto model = resolved(spec);
  CHECK(model->nodes().size() == 1);
  CHECK(model->source_bytes() == 0);
  CHECK(std::all_of(model->graphs().begin(), model->graphs().end(),
                    [](const Subgraph& graph) { return graph.owner == kNone; }));
}

TEST_CASE("weights of both branches are active, also one that a branch just gives") {
  ModelSpec then = branch({}, "w");
  then.initializers = {zeros("w", DType::f32, {2, 4})};
  ModelSpec other = branch({{"Add", {"x", "v"}, {"e"}}}, "e");
  other.initializers = {zeros("v", DType::f32, {4})};
  const auto model = resolved(around(choice(then, other)));
  CHECK(model->source_bytes() == 48);
  CHECK(model->manifest()[0].why == "then_branch of choose");
}

TEST_CASE("an If's output is what both branches give; where they differ it is open") {
  ModelSpec then = branch({{"Concat", {"x", "x"}, {"t"}, {int_attr("axis", 0)}}}, "t");
  const auto same =
      resolved(around(choice(branch({{"Relu", {"x"}, {"t"}}}, "t"), branch({{"Neg", {"x"}, {"e"}}}, "e"))));
  CHECK(shape_text(value_named(*same, "y").shape) == "[n, 4]");
  const auto other = resolved(around(choice(then, branch({{"Neg", {"x"}, {"e"}}}, "e"))));
  CHECK(shape_text(value_named(*other, "y").shape) == "[?, 4]");
  ShapeBinder binder(*other);
  const std::vector<int64_t> dims{3, 4}, scalar;
  const std::vector<BoundInput> inputs{{DType::f32, dims, nullptr}, {DType::boolean, scalar, nullptr}};
  REQUIRE(binder.bind(inputs).ok());
  CHECK_FALSE(binder.known(id_named(*other, "y")));
  CHECK(binder.shape(id_named(*other, "t"))[0] == 6);
}

TEST_CASE("a Loop's shapes: what it carries stays or is open, a scan is as high as the count, if that is known") {
  auto model = resolved(looping(doubling()));
  CHECK(shape_text(value_named(*model, "y").shape) == "[n, 4]");
  CHECK(shape_text(value_named(*model, "all").shape) == "[?, n, 4]");
  CHECK_FALSE(model->graph(0).certain);
  ShapeBinder binder(*model);
  const std::vector<int64_t> dims{3, 4}, scalar;
  const int64_t trips = 5;
  const std::vector<BoundInput> inputs{{DType::f32, dims, nullptr}, {DType::i64, scalar, &trips}};
  REQUIRE(binder.bind(inputs).ok());
  REQUIRE(binder.known(id_named(*model, "all")));
  CHECK(binder.shape(id_named(*model, "all"))[0] == 5);

  ModelSpec spec = looping(doubling());
  spec.inputs.pop_back();
  spec.initializers = {i64_scalar("m", 7)};
  model = resolved(spec);
  CHECK(shape_text(value_named(*model, "all").shape) == "[7, n, 4]");
  CHECK(model->graph(0).certain);

  ModelSpec growing = doubling();
  growing.nodes[0] = {"Concat", {"s", "s"}, {"d"}, {int_attr("axis", 0)}};
  model = resolved(looping(growing));
  CHECK(shape_text(value_named(*model, "y").shape) == "[?, 4]");
  CHECK(shape_text(value_named(*model, "s").shape) == "[?, 4]");
}

TEST_CASE("what must hold between a node and its graphs") {
  const ModelSpec right = branch({{"Relu", {"x"}, {"t"}}}, "t");
  NodeSpec node = choice(right, right);
  node.attributes.pop_back();
  CHECK(refusal(around(node)).find("attribute else_branch is missing") != std::string::npos);
  node = choice(right, right);
  node.attributes[1] = graph_attr("then_branch", graph_message(right));
  CHECK(refusal(around(node)).find("attribute then_branch is given twice") != std::string::npos);
  node = choice(right, right);
  node.attributes[1] = int_attr("else_branch", 1);
  CHECK(refusal(around(node)).find("attribute else_branch is not a graph") != std::string::npos);
  CHECK(refusal(around(choice(right, right, {"y", "z"}))).find("then_branch has 1 outputs, expected 2") !=
        std::string::npos);
  ModelSpec fed = right;
  fed.inputs = {any("i")};
  CHECK(refusal(around(choice(right, fed))).find("else_branch has 1 inputs, expected 0") != std::string::npos);
  ModelSpec unknown = branch({{"Relu", {"nowhere"}, {"t"}}}, "t");
  CHECK(refusal(around(choice(right, unknown))).find("input 'nowhere' is not defined") != std::string::npos);
  CHECK(refusal(around(choice(right, branch({}, "nothing")))).find("else_branch: subgraph output 'nothing' is not") !=
        std::string::npos);
  // What one branch defines the other doesn't see.
  CHECK(refusal(around(choice(right, branch({{"Relu", {"t"}, {"e"}}}, "e")))).find("'t' is not defined") !=
        std::string::npos);
  // A branch that needs what its If gives.
  CHECK(refusal(around(choice(right, branch({{"Relu", {"y"}, {"e"}}}, "e")))).find("cycle") != std::string::npos);
  ModelSpec body = doubling();
  body.outputs.erase(body.outputs.begin());
  CHECK(refusal(looping(body)).find("body has 2 outputs, expected 3") != std::string::npos);
  body = doubling();
  body.inputs.pop_back();
  body.nodes[0].inputs = {"x", "x"};
  CHECK(refusal(looping(body)).find("body has 2 inputs, expected 3") != std::string::npos);
  body = doubling();
  body.initializers = {zeros("s", DType::f32, {4})};
  CHECK(refusal(looping(body)).find("initializer of a subgraph's input") != std::string::npos);
}

TEST_CASE("types that don't fit") {
  const ModelSpec floats = branch({{"Relu", {"x"}, {"t"}}}, "t"), shape = branch({{"Shape", {"x"}, {"s"}}}, "s");
  CHECK(refusal(around(choice(floats, shape))).find("output 0 is float32 in then_branch, int64 in else_branch") !=
        std::string::npos);
  ModelSpec spec = around(choice(floats, floats));
  spec.inputs[1] = {"c", DType::i64, {}};
  CHECK(refusal(spec).find("condition is int64 [], expected one bool") != std::string::npos);
  spec = around(choice(floats, floats));
  spec.inputs[1].dims = {"2"};
  CHECK(refusal(spec).find("condition is bool [2], expected one bool") != std::string::npos);
  ModelSpec body = doubling();
  body.nodes[0] = {"Shape", {"s"}, {"d"}};
  CHECK(refusal(looping(body)).find("carried value 0 is float32, the body gives int64") != std::string::npos);
  body = doubling();
  body.inputs[2].dtype = DType::i64;
  CHECK(refusal(looping(body)).find("body input s is int64, expected float32") != std::string::npos);
  body = doubling();
  body.nodes[1] = {"Identity", {"i"}, {"go_on"}};
  CHECK(refusal(looping(body)).find("the body's condition is int64") != std::string::npos);
}

TEST_CASE("a condition that is a constant true in the body is known there") {
  ModelSpec body = doubling();
  body.nodes[1] = {"Cast", {"go"}, {"as_number"}, {int_attr("to", 7)}};
  body.outputs[0] = any("go", DType::boolean);
  body.nodes.push_back({"Reshape", {"d", "both"}, {"r"}});
  body.nodes.push_back({"Unsqueeze", {"as_number", "zero"}, {"ones"}});
  body.nodes.push_back({"Concat", {"ones", "minus"}, {"both"}, {int_attr("axis", 0)}});
  body.initializers = {i64s("zero", {0}), i64s("minus", {-1})};
  body.outputs[2] = any("r");
  ModelSpec spec = looping(body);
  spec.inputs[0].dims = {"3", "4"};
  CHECK(shape_text(value_named(*resolved(spec), "r").shape) == "[1, 12]");
}

}  // namespace

TEST_SUITE_END();
