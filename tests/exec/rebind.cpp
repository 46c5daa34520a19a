// Binding again where little has changed: addresses are taken over, contents only where they don't bear on shapes.
#include <doctest/doctest.h>

#include "frame_state.h"
#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;

namespace {

using Floats = std::vector<float>;
using Indices = std::vector<int64_t>;

// Whether the context would be bound by its addresses alone, after one that was bound in full.
bool rebinds(Graph& graph, const RuntimeContext& first, const RuntimeContext& second) {
  FrameState state(graph.plan(), 1, nullptr);
  REQUIRE(bind_inputs(state, first).ok());
  REQUIRE(place_values(state).ok());
  state.is_bound = true;
  const bool again = rebind(state, first);
  CHECK(again);
  return rebind(state, second);
}

// Runs every context in one frame; the elements of output "y" of each.
std::vector<Floats> run_in_one_frame(Graph& graph, const std::vector<RuntimeContext>& contexts) {
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  Frame frame(plan, 1);
  SerialTileRunner runner;
  std::vector<Floats> results;
  for (RuntimeContext context : contexts) {
    const ompipe::Status bound = frame.bind(context);
    REQUIRE_MESSAGE(bound.ok(), (bound ? "" : bound.error().message()));
    REQUIRE(run_bound(frame, *plan, context, objects, runner).ok());
    results.push_back(elements_of<float>(*context.output("y")));
  }
  return results;
}

RuntimeContext fed(std::vector<NamedTensor> inputs, std::vector<std::string> wanted = {}) {
  RuntimeContext context;
  context.inputs = std::move(inputs);
  context.wanted = std::move(wanted);
  return context;
}

}  // namespace

TEST_SUITE_BEGIN("rebind");

TEST_CASE("other addresses, the same form: views of an input follow it, and an input that is an output") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {2, 2});
  graph.output("y", graph.op("Neg", {graph.op("Transpose", {x})}));
  graph.output("x_itself", x);
  const RuntimeContext first = fed({feed<float>("x", {2, 2}, {1, 2, 3, 4})}),
                       second = fed({feed<float>("x", {2, 2}, {5, 6, 7, 8})});
  CHECK(rebinds(graph, first, second));
  CHECK(run_in_one_frame(graph, {first, second, first}) ==
        std::vector<Floats>{{-1, -3, -2, -4}, {-5, -7, -6, -8}, {-1, -3, -2, -4}});
}

TEST_CASE("another name, dtype, shape, set of outputs or order is bound in full") {
  Graph graph;
  const auto a = graph.input("a", DType::f32, {-1}), b = graph.input("b", DType::f32, {-1});
  graph.output("y", graph.op("Sub", {a, b}));
  graph.output("z", graph.op("Add", {a, b}));
  const auto one = [](const char* name, float value) { return feed<float>(name, {1}, {value}); };
  const RuntimeContext first = fed({one("a", 1), one("b", 2)});
  CHECK(rebinds(graph, first, fed({one("a", 3), one("b", 4)})));
  CHECK_FALSE(rebinds(graph, first, fed({one("b", 2), one("a", 1)})));
  CHECK_FALSE(rebinds(graph, first, fed({one("a", 1)})));
  CHECK_FALSE(rebinds(graph, first, fed({feed<int64_t>("a", {1}, {1}), one("b", 2)})));
  CHECK_FALSE(rebinds(graph, first, fed({feed<float>("a", {2}, {1, 2}), feed<float>("b", {2}, {1, 2})})));
  CHECK_FALSE(rebinds(graph, first, fed({one("a", 1), one("b", 2)}, {"y"})));
  CHECK(run_in_one_frame(graph, {first, fed({one("b", 2), one("a", 1)}),
                                 fed({feed<float>("a", {2}, {1, 2}), feed<float>("b", {2}, {5, 7})})}) ==
        std::vector<Floats>{{-1}, {-1}, {-4, -5}});
}

TEST_CASE("contents that give a shape are bound in full, others are not looked at") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {4});
  const auto shape = graph.input("shape", DType::i64, {2});
  const auto rows = graph.input("rows", DType::i64, {1});
  const auto table = graph.op("Reshape", {x, shape});
  graph.output("y", graph.op("Gather", {table, rows}, {{"axis", int64_t(0)}}));
  const auto with = [](Indices shape_is, int64_t row) {
    return fed({feed<float>("x", {4}, {1, 2, 3, 4}), feed<int64_t>("shape", {2}, shape_is),
                feed<int64_t>("rows", {1}, {row})});
  };
  CHECK(rebinds(graph, with({2, 2}, 0), with({2, 2}, 1)));
  CHECK_FALSE(rebinds(graph, with({2, 2}, 0), with({4, 1}, 0)));
  CHECK(run_in_one_frame(graph, {with({2, 2}, 0), with({2, 2}, 1), with({4, 1}, 3), with({4, 1}, 2),
                                 with({1, 4}, 0)}) == std::vector<Floats>{{1, 2}, {3, 4}, {4}, {3}, {1, 2, 3, 4}});
}

TEST_CASE("a refused context leaves the frame to be bound in full") {
  Graph graph;
  graph.output("y", graph.op("Neg", {graph.input("x", DType::f32, {-1})}));
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  Frame frame(plan, 1);
  SerialTileRunner runner;
  RuntimeContext context = fed({feed<float>("x", {2}, {1, 2})});
  REQUIRE(frame.bind(context).ok());
  CHECK_FALSE(frame.bind(fed({})).ok());
  REQUIRE(frame.bind(context).ok());
  REQUIRE(run_bound(frame, *plan, context, objects, runner).ok());
  CHECK(elements_of<float>(*context.output("y")) == Floats{-1, -2});
}

TEST_SUITE_END();
