// If and Loop in one frame, against what the same arithmetic gives in C++; the same bits in any order of tiles.
#include <doctest/doctest.h>

#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;
using ompipe::model::kNone;
using ompipe::model::ValueId;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

RuntimeContext run_graph(Graph& graph, std::vector<NamedTensor> inputs) {
  RuntimeContext context;
  context.inputs = std::move(inputs);
  const ompipe::Status status = run(graph, context);
  REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message()));
  return context;
}

Floats floats(const RuntimeContext& context, const std::string& name) {
  REQUIRE(context.output(name) != nullptr);
  return elements_of<float>(*context.output(name));
}

Integers shape_of(const RuntimeContext& context, const std::string& name) {
  const auto shape = context.output(name)->view.shape();
  return {shape.begin(), shape.end()};
}

// An If: x twice, one behind the other, or x as it is.
ValueId doubled_if(Graph& graph, ValueId condition, ValueId x) {
  const ValueId picked = graph.flow("If", {condition}, 1)[0];
  graph.begin("then_branch");
  graph.end({graph.op("Concat", {x, x}, {{"axis", int64_t(0)}})});
  graph.begin("else_branch");
  graph.end({x});
  graph.close();
  return picked;
}

}  // namespace

TEST_SUITE_BEGIN("flow");

TEST_CASE("an If gives what the chosen branch does; values around it are seen in both") {
  for (const bool chosen : {true, false}) {
    CAPTURE(chosen);
    Graph graph;
    const auto x = graph.input("x", DType::f32, {3, 2});
    const auto c = graph.input("c", DType::boolean, {});
    const auto before = graph.op("Relu", {x});
    const auto y = graph.flow("If", {c}, 1)[0];
    graph.begin("then_branch");
    graph.end({graph.op("Add", {before, before})});
    graph.begin("else_branch");
    graph.end({graph.op("MatMul", {before, graph.weight<float>("w", {2, 2}, {1, 2, 3, 4})})});
    graph.close();
    graph.output("y", graph.op("Neg", {y}));
    const Floats result = run_floats(graph, {feed<float>("x", {3, 2}, {1, -2, 3, 4, -5, 6}), feed_bool("c", chosen)});
    CHECK(result == (chosen ? Floats{-2, 0, -6, -8, 0, -12} : Floats{-1, -2, -15, -22, -18, -24}));
  }
}

TEST_CASE("a branch may give a value from outside, a constant, a weight; an If may be an output itself") {
  for (const bool chosen : {true, false}) {
    CAPTURE(chosen);
    Graph graph;
    const auto x = graph.input("x", DType::f32, {2});
    const auto c = graph.input("c", DType::boolean, {});
    const auto outputs = graph.flow("If", {c}, 3);
    graph.begin("then_branch");
    graph.end({x, graph.constant<float>({2}, {5, 6}), graph.weight<float>("w", {2}, {7, 8})});
    graph.begin("else_branch");
    const auto sum = graph.op("Add", {x, x});
    graph.end({sum, sum, x});
    graph.close();
    for (int i = 0; i < 3; ++i) graph.output("y" + std::to_string(i), outputs[size_t(i)]);
    const RuntimeContext context = run_graph(graph, {feed<float>("x", {2}, {1, 2}), feed_bool("c", chosen)});
    CHECK(floats(context, "y0") == (chosen ? Floats{1, 2} : Floats{2, 4}));
    CHECK(floats(context, "y1") == (chosen ? Floats{5, 6} : Floats{2, 4}));
    CHECK(floats(context, "y2") == (chosen ? Floats{7, 8} : Floats{1, 2}));
  }
}

// x, then `trips` times x = x * 2 + 1; the x of each pass as it was before is stacked.
struct Doubling {
  explicit Doubling(bool constant_trips, int64_t trips = 0) {
    const auto x = graph.input("x", DType::f32, {2});
    const auto m = constant_trips ? graph.constant<int64_t>({}, {trips}) : graph.input("m", DType::i64, {});
    const auto outputs = graph.flow("Loop", {m, kNone, x}, 2);
    const auto in = graph.begin("body", {DType::i64, DType::boolean, DType::f32});
    const auto next = graph.op("Add", {graph.op("Add", {in[2], in[2]}), graph.constant<float>({}, {1})});
    graph.end({in[1], next, in[2]});
    graph.close();
    graph.output("y", outputs[0]);
    graph.output("all", outputs[1]);
  }
  Graph graph;
};

TEST_CASE("a Loop hands on what it carries and stacks its scans; so many passes as the count says, none too") {
  for (const bool constant : {true, false}) {
    for (const int64_t trips : {0, 1, 5}) {
      CAPTURE(constant);
      CAPTURE(trips);
      Doubling model(constant, trips);
      std::vector<NamedTensor> inputs{feed<float>("x", {2}, {1, 2})};
      if (!constant) inputs.push_back(feed<int64_t>("m", {}, {trips}));
      const RuntimeContext context = run_graph(model.graph, inputs);
      Floats x{1, 2}, all;
      for (int64_t i = 0; i < trips; ++i) {
        all.insert(all.end(), x.begin(), x.end());
        for (float& element : x) element = element + element + 1;
      }
      CHECK(floats(context, "y") == x);
      CHECK(floats(context, "all") == all);
      CHECK(shape_of(context, "all") == Integers{trips, 2});
    }
  }
}

TEST_CASE("carried values that change places, and one that stays") {
  Graph graph;
  const auto a = graph.input("a", DType::f32, {2}), b = graph.input("b", DType::f32, {2});
  const auto m = graph.constant<int64_t>({}, {3});
  const auto outputs = graph.flow("Loop", {m, kNone, a, b, a}, 3);
  const auto in = graph.begin("body", {DType::i64, DType::boolean, DType::f32, DType::f32, DType::f32});
  graph.end({in[1], in[3], in[2], in[4]});
  graph.close();
  for (int i = 0; i < 3; ++i) graph.output("y" + std::to_string(i), outputs[size_t(i)]);
  const RuntimeContext context = run_graph(graph, {feed<float>("a", {2}, {1, 2}), feed<float>("b", {2}, {3, 4})});
  CHECK(floats(context, "y0") == Floats{3, 4});
  CHECK(floats(context, "y1") == Floats{1, 2});
  CHECK(floats(context, "y2") == Floats{1, 2});
}

TEST_CASE("branches of different shapes: what follows is bound when one was chosen") {
  for (const bool chosen : {true, false}) {
    CAPTURE(chosen);
    Graph graph;
    const auto x = graph.input("x", DType::f32, {2, 3});
    const auto c = graph.input("c", DType::boolean, {});
    const auto picked = doubled_if(graph, c, x);
    graph.output("picked", picked);
    graph.output("t", graph.op("Transpose", {picked}));
    graph.output("sum", graph.op("ReduceSum", {picked}, {{"keepdims", int64_t(0)}}));
    graph.output("shape", graph.op("Shape", {graph.op("Relu", {picked})}));
    const RuntimeContext context =
        run_graph(graph, {feed<float>("x", {2, 3}, {1, 2, 3, 4, 5, 6}), feed_bool("c", chosen)});
    CHECK(shape_of(context, "picked") == (chosen ? Integers{4, 3} : Integers{2, 3}));
    CHECK(floats(context, "t") == (chosen ? Floats{1, 4, 1, 4, 2, 5, 2, 5, 3, 6, 3, 6} : Floats{1, 4, 2, 5, 3, 6}));
    CHECK(floats(context, "sum") == Floats{chosen ? 42.0f : 21.0f});
    CHECK(elements_of<int64_t>(*context.output("shape")) == (chosen ? Integers{4, 3} : Integers{2, 3}));
  }
}

TEST_CASE("a carried value that grows, a condition that ends the Loop, a stack of unknown height") {
  for (const int64_t most : {0, 1, 20, 100}) {
    CAPTURE(most);
    // While the sum of what is carried is below 100 it gets one more element, the number of the pass.
    Graph graph;
    const auto x = graph.input("x", DType::f32, {1});
    const auto m = graph.input("m", DType::i64, {});
    const auto yes = graph.truth(true);
    const auto outputs = graph.flow("Loop", {m, yes, x}, 2);
    const auto in = graph.begin("body", {DType::i64, DType::boolean, DType::f32});
    const auto number = graph.op("Cast", {in[0]}, {{"to", int64_t(1)}});
    const auto element = graph.op("Reshape", {number, graph.constant<int64_t>({1}, {1})});
    const auto longer = graph.op("Concat", {in[2], element}, {{"axis", int64_t(0)}});
    const auto sum = graph.op("ReduceSum", {longer}, {{"keepdims", int64_t(0)}});
    const auto above = graph.op("Max", {sum, graph.constant<float>({}, {100})});
    graph.end({graph.op("Equal", {above, graph.constant<float>({}, {100})}), longer, sum});
    graph.close();
    graph.output("y", outputs[0]);
    graph.output("sums", graph.op("Neg", {outputs[1]}));
    const RuntimeContext context = run_graph(graph, {feed<float>("x", {1}, {5}), feed<int64_t>("m", {}, {most})});
    Floats wanted{5}, sums;
    float total = 5;
    for (int64_t i = 0; i < most; ++i) {
      wanted.push_back(float(i));
      total += float(i);
      sums.push_back(-total);
      if (total > 100) break;
    }
    CHECK(floats(context, "y") == wanted);
    CHECK(floats(context, "sums") == sums);
    CHECK(shape_of(context, "sums") == Integers{int64_t(sums.size())});
  }
}

TEST_CASE("in a body a shape may depend on the number of the pass; a Loop in a Loop, an If in it") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {4, 2});
  const auto c = graph.input("c", DType::boolean, {});
  const auto rows = graph.constant<int64_t>({}, {4}), times = graph.constant<int64_t>({}, {2});
  // Row by row: rows that are at an even place are doubled twice, if c says so; their sums are stacked.
  const auto all = graph.flow("Loop", {rows, kNone}, 1)[0];
  const auto outer = graph.begin("body", {DType::i64, DType::boolean});
  const auto one = graph.constant<int64_t>({1}, {1}), axis = graph.constant<int64_t>({1}, {0});
  const auto start = graph.op("Reshape", {outer[0], one});
  const auto row = graph.op("Slice", {x, start, graph.op("Add", {start, one}), axis});
  const auto twice = graph.flow("Loop", {times, kNone, row}, 1)[0];
  const auto inner = graph.begin("body", {DType::i64, DType::boolean, DType::f32});
  const auto doubled = graph.flow("If", {c}, 1)[0];
  graph.begin("then_branch");
  graph.end({graph.op("Add", {inner[2], inner[2]})});
  graph.begin("else_branch");
  graph.end({inner[2]});
  graph.close();
  graph.end({inner[1], doubled});
  graph.close();
  graph.end({outer[1], graph.op("ReduceSum", {twice}, {{"keepdims", int64_t(0)}})});
  graph.close();
  graph.output("y", all);
  for (const bool chosen : {true, false}) {
    Graph copy = graph;
    const Floats result =
        run_floats(copy, {feed<float>("x", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), feed_bool("c", chosen)});
    CHECK(result == (chosen ? Floats{12, 28, 44, 60} : Floats{3, 7, 11, 15}));
  }
}

TEST_CASE("scan outputs whose shape changes from pass to pass are an error of the run") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {1});
  const auto outputs = graph.flow("Loop", {graph.constant<int64_t>({}, {3}), kNone, x}, 2);
  const auto in = graph.begin("body", {DType::i64, DType::boolean, DType::f32});
  const auto longer = graph.op("Concat", {in[2], x}, {{"axis", int64_t(0)}});
  graph.end({in[1], longer, longer});
  graph.close();
  graph.output("y", outputs[1]);
  RuntimeContext context;
  context.inputs = {feed<float>("x", {1}, {1})};
  const ompipe::Status status = run(graph, context);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().phase == "run");
  CHECK(status.error().reason.find("shape [3] in pass 1") != std::string::npos);
}

TEST_CASE("a second run in the same frame, with another choice and other lengths") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {-1});
  const auto c = graph.input("c", DType::boolean, {});
  const auto picked = doubled_if(graph, c, x);
  graph.output("y", graph.op("Neg", {picked}));
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  Frame frame(plan, 1);
  for (const bool chosen : {true, false, false, true}) {
    for (const int64_t length : {3, 1}) {
      RuntimeContext context;
      const Floats given(size_t(length), 2);
      context.inputs = {feed<float>("x", {length}, given), feed_bool("c", chosen)};
      REQUIRE(frame.bind(context).ok());
      SerialTileRunner runner(uint64_t(length), 1);
      REQUIRE(run_bound(frame, *plan, context, objects, runner).ok());
      CHECK(floats(context, "y") == Floats(size_t(chosen ? 2 * length : length), -2));
    }
  }
}

TEST_SUITE_END();
