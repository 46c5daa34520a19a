// Ranges: where segments are cut around If and Loop, what both branches need, how long values live, how it prints.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ompipe/plan/print.h"
#include "plans.h"

TEST_SUITE_BEGIN("flow");

namespace {

using namespace ompipe;
using namespace ompipe::plan;
using namespace ompipe::test;
using model::DType;
using Json = nlohmann::json;

NodeSpec mat_mul(const std::string& a, const std::string& b, const std::string& y) {
  return {"MatMul", {a, b}, {y}, {}, "", "n_" + y};
}

PortSpec any(const std::string& name) { return {name, DType::f32, {}, false}; }

// first; then w_then, w_both or w_else, w_both; last.
ModelSpec branching() {
  ModelSpec then, other;
  then.initializers = {zeros("w_then", DType::f32, {16, 16}), zeros("b", DType::f32, {16})};
  then.nodes = {mat_mul("f", "w_then", "t"), mat_mul("t", "w_both", "t2"), {"Add", {"t2", "b"}, {"t3"}}};
  then.outputs = {any("t3")};
  other.initializers = {zeros("w_else", DType::f32, {16, 16})};
  other.nodes = {mat_mul("f", "w_else", "e"), mat_mul("e", "w_both", "e2")};
  other.outputs = {any("e2")};
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n", "16"}}, {"c", DType::boolean, {}}};
  for (const char* name : {"w_first", "w_both", "w_last"})
    spec.initializers.push_back(zeros(name, DType::f32, {16, 16}));
  spec.nodes = {mat_mul("x", "w_first", "f"),
                {"If",
                 {"c"},
                 {"i"},
                 {graph_attr("else_branch", graph_message(other)), graph_attr("then_branch", graph_message(then))},
                 "",
                 "choose"},
                mat_mul("i", "w_last", "y")};
  spec.outputs = {any("y")};
  return spec;
}

// x = x w, so many times; `trips` is a constant if it isn't negative.
ModelSpec looping(int64_t trips) {
  ModelSpec body;
  body.inputs = {{"i", DType::i64, {}}, {"go", DType::boolean, {}}, {"s", DType::f32, {"n", "16"}}};
  body.initializers = {zeros("w", DType::f32, {16, 16})};
  body.nodes = {{"Identity", {"go"}, {"go_on"}}, {"Add", {"s", "outside"}, {"sum"}}, mat_mul("sum", "w", "next")};
  body.outputs = {{"go_on", DType::boolean, {}, false}, any("next")};
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n", "16"}}};
  spec.nodes = {{"Relu", {"x"}, {"outside"}},
                {"Loop", {"m", "", "x"}, {"y"}, {graph_attr("body", graph_message(body))}, "", "loop"},
                {"Relu", {"y"}, {"z"}}};
  if (trips >= 0) {
    spec.initializers = {i64_scalar("m", trips)};
  } else {
    spec.inputs.push_back({"m", DType::i64, {}});
  }
  spec.outputs = {any("z")};
  return spec;
}

TEST_CASE("an If ends its segment; a branch is a range of whole segments; both lead behind it") {
  const PlanPointer plan = plan_of(branching());
  REQUIRE(plan->segments.size() == 4);
  CHECK(plan->segments[0].name == "n_f");
  CHECK(plan->segments[0].next == std::vector<SegmentId>{1, 2});
  CHECK(plan->chooses(0));
  CHECK(plan->after(0, 1) == 2);
  for (const SegmentId branch : {1, 2}) {
    CHECK(plan->after(branch, 0) == 3);
    CHECK(plan->join(branch) == 3);
  }
  CHECK(plan->join(0) == 3);
  CHECK(plan->after(3, 0) == 4);
  REQUIRE(plan->ranges.size() == 2);
  CHECK(plan->ranges[0].name == "choose.then_branch");
  CHECK(plan->ranges[1].name == "choose.else_branch");
  CHECK(plan->segments[1].range == 0);
  CHECK(plan->segments[3].range == kNone);
}

TEST_CASE("what both branches need is known; what one alone needs is not certain; all of it is counted") {
  const PlanPointer plan = plan_of(branching());
  const ObjectId both = object_named(*plan, "w_both");
  CHECK(plan->segments[0].either == std::vector<ObjectId>{both});
  for (const char* name : {"w_first", "w_both", "w_last"})
    CHECK(plan->objects[size_t(object_named(*plan, name))].certain);
  for (const char* name : {"w_then", "w_else"}) CHECK_FALSE(plan->objects[size_t(object_named(*plan, name))].certain);
  CHECK(plan->source_bytes == 5 * 1024 + 64);
  CHECK(plan->model->source_bytes() == 5 * 1024 + 64);
}

TEST_CASE("a small payload of one branch is in no bundle that the other needs") {
  ModelSpec spec = branching();
  ModelSpec then, other;
  then.initializers = {zeros("own", DType::f32, {16})};
  then.nodes = {{"Add", {"f", "shared"}, {"t"}}, {"Add", {"t", "own"}, {"t2"}}};
  then.outputs = {any("t2")};
  other.nodes = {{"Add", {"f", "shared"}, {"e"}}};
  other.outputs = {any("e")};
  spec.initializers.push_back(zeros("shared", DType::f32, {16}));
  spec.nodes[1].attributes = {graph_attr("then_branch", graph_message(then)),
                              graph_attr("else_branch", graph_message(other))};
  const PlanPointer plan = plan_of(spec);
  REQUIRE(plan->segments[2].requirements.size() == 1);
  const PreparedObject& bundle = plan->objects[size_t(plan->segments[2].requirements[0])];
  REQUIRE(bundle.sources.size() == 1);
  CHECK(plan->model->payload(bundle.sources[0].payload).name == "shared");
}

TEST_CASE("a Loop: its body may come again or not at all; a constant count makes it certain") {
  for (const int64_t trips : {int64_t(-1), int64_t(0), int64_t(3)}) {
    CAPTURE(trips);
    const PlanPointer plan = plan_of(looping(trips));
    REQUIRE(plan->segments.size() == 3);
    CHECK(plan->segments[0].next == std::vector<SegmentId>{1, 2});
    CHECK(plan->segments[1].next == std::vector<SegmentId>{1, 2});
    CHECK(plan->join(0) == (trips > 0 ? 1 : 2));
    CHECK(plan->join(1) == 2);
    CHECK(plan->ranges[0].loop);
    CHECK(plan->objects[size_t(object_named(*plan, "w"))].certain == (trips > 0));
  }
}

TEST_CASE("values from outside a Loop live through all its passes, and so does what it carries") {
  const PlanPointer plan = plan_of(looping(-1));
  const ActionId last = plan->ranges[0].last;
  CHECK(plan->actions[size_t(last)].step == Step::repeat);
  CHECK(plan->lives[size_t(id_named(*plan->model, "outside"))].last_use == last);
  CHECK(plan->lives[size_t(id_named(*plan->model, "s"))].last_use == last);
  CHECK(plan->lives[size_t(id_named(*plan->model, "s"))].defined == plan->ranges[0].head);
  CHECK(plan->lives[size_t(id_named(*plan->model, "sum"))].last_use < last);
}

TEST_CASE("prints show ranges and choices") {
  const PlanPointer plan = plan_of(branching());
  const std::string table = plan_table(*plan);
  CHECK(table.find("chooses choose.then_branch or choose.else_branch") != std::string::npos);
  CHECK(table.find("\nrange choose.else_branch: I.n_e to I.n_e\n") != std::string::npos);
  const std::vector<TaskRow> tasks = plan_tasks(*plan);
  const auto last = std::find_if(tasks.begin(), tasks.end(), [](const TaskRow& row) { return row.id == "I.n_y"; });
  REQUIRE(last != tasks.end());
  CHECK(last->dependencies == std::vector<std::string>{"I.n_t", "I.n_e", "P.w_last"});
  const Json json = Json::parse(plan_json(*plan));
  CHECK(json["ranges"][0]["name"] == "choose.then_branch");
  CHECK(json["ranges"][0]["segments"] == Json::array({1, 2}));
  CHECK(json["segments"][1]["range"] == 0);
  CHECK(json["segments"][0]["next"] == Json::array({1, 2}));
  CHECK(json["segments"][3]["range"].is_null());
  CHECK(plan_dot(*plan).find("subgraph cluster_0 { label=\"choose.then_branch\"; \"I.n_t\"; }") != std::string::npos);
  CHECK(plan_table(*plan_of(looping(-1))).find("pass by pass") != std::string::npos);
}

}  // namespace

TEST_SUITE_END();
