// The plan as a table, as JSON and as DOT.
#include "ompipe/plan/print.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plans.h"

TEST_SUITE_BEGIN("print");

namespace {

using namespace ompipe;
using namespace ompipe::plan;
using namespace ompipe::test;
using model::DType;
using Json = nlohmann::json;

TEST_CASE("tasks: three of the session for each object, one of the invocation for each segment") {
  const PlanPointer plan = plan_of(matmul_chain(5, 16));
  const std::vector<TaskRow> tasks = plan_tasks(*plan);
  REQUIRE(tasks.size() == 5 * 3 + 2);
  CHECK(tasks[0].id == "S.w0.read_source");
  CHECK(tasks[0].resource == "io");
  CHECK(tasks[0].dependencies == std::vector<std::string>{"payload w0"});
  CHECK(tasks[0].bytes == 1024);
  CHECK(tasks[1].id == "S.w0.prepack");
  CHECK(tasks[1].dependencies == std::vector<std::string>{"S.w0.read_source"});
  CHECK(tasks[2].id == "S.w0.publish");
  CHECK(tasks[2].result == "P.w0");
  CHECK(tasks[15].id == "I.n0");
  CHECK(tasks[15].scope == "invocation");
  CHECK(tasks[15].dependencies == std::vector<std::string>{"input x", "P.w0", "P.w1", "P.w2", "P.w3"});
  CHECK(tasks[15].result == "y3");
  CHECK(tasks[16].dependencies == std::vector<std::string>{"I.n0", "P.w4"});
  CHECK(tasks[16].result == "y4");
}

TEST_CASE("names that the model repeats are told apart") {
  ModelSpec spec = matmul_chain(5, 16);
  spec.nodes[4].name = "n0";
  spec.nodes.push_back({"Gemm", {"y4", "w0"}, {"g"}, {int_attr("transB", 1)}});
  spec.outputs = {{"g", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec);
  CHECK(segment_names(*plan) == std::vector<std::string>{"n0", "n0#2"});
  CHECK(object_names(*plan).back() == "w0#2");
}

TEST_CASE("the table has a line a task, and the totals") {
  const PlanPointer plan = plan_of(matmul_chain(5, 16));
  const std::string table = plan_table(*plan);
  CHECK(std::count(table.begin(), table.end(), '\n') == 1 + 17 + 1);
  CHECK(table.find("Dependencies | Result\n") != std::string::npos);
  CHECK(table.find("| session    | cpu      | S.w0.read_source | ") != std::string::npos);
  CHECK(table.find("| invocation | cpu      | I.n0, P.w4 | y4\n") != std::string::npos);
  CHECK(table.find("5 objects, 5120 bytes to read") != std::string::npos);
}

TEST_CASE("JSON names what the plan holds; every dependency is a task, an object, a payload or an input") {
  ModelSpec spec = nbits_model(64, 40, true);
  spec.initializers[0].name = spec.nodes[0].inputs[1] = "b\"\xff";
  const PlanPointer plan = plan_of(spec);
  const Json json = Json::parse(plan_json(*plan));
  CHECK(json["packed_bytes"] == plan->packed_bytes);
  CHECK(json["objects"][0]["kind"] == "packed_matmul");
  CHECK(json["objects"][0]["key"] != "");
  CHECK(json["segments"][0]["requirements"] == Json::array({0}));
  std::vector<std::string> given = {"payload b\"\xef\xbf\xbd", "payload scales", "payload zeros", "input x"};
  for (const Json& task : json["tasks"]) {
    given.push_back(task["task"]);
    given.push_back(task["result"]);
  }
  for (const Json& task : json["tasks"]) {
    for (const std::string dependency : task["dependencies"])
      CHECK_MESSAGE(std::find(given.begin(), given.end(), dependency) != given.end(), dependency);
  }
}

TEST_CASE("DOT has an edge for each dependency and quotes whatever a name holds") {
  ModelSpec spec = matmul_chain(1, 16);
  spec.initializers[0].name = spec.nodes[0].inputs[1] = "w\"0\\\n";
  const std::string dot = plan_dot(*plan_of(spec));
  CHECK(dot.starts_with("digraph plan {"));
  CHECK(dot.find("\"payload w\\\"0\\\\ \" -> \"S.w\\\"0\\\\ .read_source\"") != std::string::npos);
  CHECK(dot.find("\"P.w\\\"0\\\\ \" -> \"I.n0\"") != std::string::npos);
}

}  // namespace
