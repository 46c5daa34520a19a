// Binding, memory, outputs, errors; the same bits in any order of tiles; no allocation in a second round.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <random>

#include "graph.h"

namespace {
thread_local uint64_t allocations = 0;
}

// NOLINTBEGIN: replaced for the whole test program, to count.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* pointer = std::malloc(bytes == 0 ? 1 : bytes)) return pointer;
  std::abort();
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
// NOLINTEND

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;
using ompipe::model::ValueId;

namespace {

using Floats = std::vector<float>;

Floats counting(int64_t count, float first) {
  Floats made;
  for (int64_t i = 0; i < count; ++i) made.push_back(first + float(i));
  return made;
}

std::string refusal(Graph& graph, const RuntimeContext& context) {
  Frame frame(graph.plan(), 1);
  const ompipe::Status status = frame.bind(context);
  REQUIRE(!status.ok());
  CHECK(status.error().kind == ompipe::ErrorKind::usage);
  return status.error().subject + ": " + status.error().reason;
}

// A layer of everything that is cut into tiles: 4-bit and float products, norms, softmax, attention-like batches.
Graph tiled_graph() {
  Graph graph;
  const auto x = graph.shaped_input("x", DType::f32, {{{}, "rows"}, {256, {}}});
  std::vector<uint8_t> nibbles(512 * 8 * 16);
  for (size_t i = 0; i < nibbles.size(); ++i) nibbles[i] = uint8_t(i * 37 + i / 16);
  Floats scales(512 * 8), weights(512 * 256);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.001f * float(i % 7 + 1);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.01f * float(int(i * 13 % 31) - 15);
  const auto normed = graph.op("SimplifiedLayerNormalization",
                               {x, graph.weight<float>("gain", {256}, counting(256, 0.5f))}, {{"epsilon", 1e-6f}});
  const auto wide = graph.node(
      "MatMulNBits",
      {normed, graph.weight<uint8_t>("q", {512, 8, 16}, nibbles), graph.weight<float>("s", {512, 8}, scales)}, 1,
      {{"K", int64_t(256)},
       {"N", int64_t(512)},
       {"bits", int64_t(4)},
       {"block_size", int64_t(32)},
       {"accuracy_level", int64_t(4)}},
      "com.microsoft")[0];
  const auto parts = graph.node("Split", {wide, graph.constant<int64_t>({2}, {256, 256})}, 2, {{"axis", int64_t(-1)}});
  const auto gated = graph.op("Mul", {graph.op("Sigmoid", {parts[0]}), parts[1]});
  const auto scores =
      graph.op("Softmax", {graph.op("MatMul", {gated, graph.op("Transpose", {gated})})}, {{"axis", int64_t(-1)}});
  const auto mixed = graph.op("MatMul", {scores, gated});
  graph.output("y", graph.op("Gemm", {mixed, graph.weight<float>("w", {512, 256}, weights)}, {{"transB", int64_t(1)}}));
  return graph;
}

}  // namespace

TEST_SUITE_BEGIN("frame");

TEST_CASE("inputs that don't fit are refused, with what was expected and what was found") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {-1, 3});
  graph.output("y", graph.op("Neg", {x}));
  RuntimeContext context;
  SUBCASE("unknown") {
    context.inputs = {feed<float>("z", {1, 3}, {1, 2, 3})};
    CHECK(refusal(graph, context) == "z: the model has no such input; its inputs are x");
  }
  SUBCASE("missing") { CHECK(refusal(graph, context).starts_with("x: ")); }
  SUBCASE("twice") {
    context.inputs = {feed<float>("x", {1, 3}, {1, 2, 3}), feed<float>("x", {1, 3}, {1, 2, 3})};
    CHECK(refusal(graph, context) == "x: given twice");
  }
  SUBCASE("dtype") {
    context.inputs = {feed<int64_t>("x", {1, 3}, {1, 2, 3})};
    CHECK(refusal(graph, context) == "x: expected dtype float32, got int64");
  }
  SUBCASE("rank and dimension") {
    context.inputs = {feed<float>("x", {3}, {1, 2, 3})};
    CHECK(refusal(graph, context).starts_with("x: "));
    context.inputs = {feed<float>("x", {1, 4}, {1, 2, 3, 4})};
    const std::string reason = refusal(graph, context);
    CHECK(reason.find('3') != std::string::npos);
    CHECK(reason.find('4') != std::string::npos);
  }
  SUBCASE("an output that isn't there") {
    context.inputs = {feed<float>("x", {1, 3}, {1, 2, 3})};
    context.wanted = {"x"};
    CHECK(refusal(graph, context) == "x: the model has no such output");
  }
}

TEST_CASE("outputs: only the wanted ones get memory; inputs and constants come back as they are") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {2});
  const auto negated = graph.op("Neg", {x});
  graph.output("negated", negated);
  graph.output("twice", graph.op("Add", {negated, negated}));
  graph.output("again", negated);
  graph.output("x_itself", x);
  graph.output("constant", graph.constant<float>({2}, {5, 6}));
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  Frame frame(plan, 1);
  SerialTileRunner runner;
  RuntimeContext context;
  context.inputs = {feed<float>("x", {2}, {1, 2})};
  REQUIRE(frame.bind(context).ok());
  CHECK(std::vector<uint64_t>(frame.output_bytes().begin(), frame.output_bytes().end()) ==
        std::vector<uint64_t>{8, 8, 0, 0, 0});
  REQUIRE(run_bound(frame, *plan, context, objects, runner).ok());
  CHECK(context.outputs.size() == 5);
  CHECK(elements_of<float>(*context.output("again")) == Floats{-1, -2});
  CHECK(elements_of<float>(*context.output("twice")) == Floats{-2, -4});
  CHECK(context.output("x_itself")->view.data == context.inputs[0].tensor.view.data);
  CHECK(elements_of<float>(*context.output("constant")) == Floats{5, 6});

  context.wanted = {"twice"};
  REQUIRE(frame.bind(context).ok());
  CHECK(std::vector<uint64_t>(frame.output_bytes().begin(), frame.output_bytes().end()) ==
        std::vector<uint64_t>{0, 8, 0, 0, 0});
  REQUIRE(run_bound(frame, *plan, context, objects, runner).ok());
  CHECK(context.outputs.size() == 1);
  CHECK(elements_of<float>(*context.output("twice")) == Floats{-2, -4});
}

TEST_CASE("an output outlives frame and context") {
  HeldTensor kept;
  {
    Graph graph;
    graph.output("y", graph.op("Neg", {graph.input("x", DType::f32, {2})}));
    RuntimeContext context;
    context.inputs = {feed<float>("x", {2}, {1, 2})};
    REQUIRE(run(graph, context).ok());
    kept = *context.output("y");
  }
  CHECK(elements_of<float>(kept) == Floats{-1, -2});
}

TEST_CASE("random graphs: no value is overwritten while it is used") {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    Graph graph;
    std::vector<std::pair<ValueId, Floats>> values;  // all of shape [2, 3]
    const Floats x = counting(6, 1);
    values.emplace_back(graph.input("x", DType::f32, {2, 3}), x);
    for (int i = 0; i < 30; ++i) {
      const auto& [a, a_is] = values[random() % values.size()];
      const auto& [b, b_is] = values[random() % values.size()];
      Floats expected(6);
      ValueId made = 0;
      if (random() % 3 == 0) {
        made = graph.op("Transpose", {graph.op("Transpose", {graph.op("Neg", {a})})});
        for (size_t e = 0; e < 6; ++e) expected[e] = -a_is[e];
      } else if (random() % 2 == 0) {
        const auto halves = graph.node("Split", {a, graph.constant<int64_t>({2}, {1, 1})}, 2, {{"axis", int64_t(0)}});
        made = graph.op("Concat", {halves[1], halves[0]}, {{"axis", int64_t(0)}});
        for (size_t e = 0; e < 6; ++e) expected[e] = a_is[(e + 3) % 6];
      } else {
        made = graph.op("Max", {a, b});
        for (size_t e = 0; e < 6; ++e) expected[e] = std::max(a_is[e], b_is[e]);
      }
      values.emplace_back(made, expected);
    }
    graph.output("y", values.back().first);
    graph.output("middle", values[values.size() / 2].first);
    RuntimeContext context;
    context.inputs = {feed<float>("x", {2, 3}, x)};
    REQUIRE(run(graph, context).ok());
    CHECK(elements_of<float>(*context.output("y")) == values.back().second);
    CHECK(elements_of<float>(*context.output("middle")) == values[values.size() / 2].second);
  }
}

TEST_CASE("any order of tiles on any number of workers gives the same bits") {
  Graph graph = tiled_graph();
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  for (const int64_t rows : {1, 3, 150}) {
    RuntimeContext context;
    context.inputs = {feed<float>("x", {rows, 256}, counting(rows * 256, -9))};
    Frame frame(plan, 3);
    REQUIRE(frame.bind(context).ok());
    CHECK(frame.segment_predicted_ns(0) > 0);
    SerialTileRunner in_order;
    REQUIRE(run_bound(frame, *plan, context, objects, in_order).ok());
    const Floats expected = elements_of<float>(*context.output("y"));
    for (const float value : expected) REQUIRE(std::isfinite(value));
    for (const uint64_t seed : {1, 2, 3, 4}) {
      SerialTileRunner shuffled(seed, 3);
      REQUIRE(frame.bind(context).ok());
      REQUIRE(run_bound(frame, *plan, context, objects, shuffled).ok());
      CHECK(elements_of<float>(*context.output("y")) == expected);
    }
  }
}

TEST_CASE("a second round in the same frame allocates nothing") {
  Graph graph = tiled_graph();
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  Frame frame(plan, 1);
  SerialTileRunner runner;
  RuntimeContext context;
  context.inputs = {feed<float>("x", {150, 256}, counting(150 * 256, -9))};
  NamedTensor fewer = feed<float>("x", {100, 256}, counting(100 * 256, -9));
  const auto memory = MemoryObjects::allocate(64 << 20);
  const std::vector<HeldBytes> outputs{{memory.get(), 1 << 20, memory}};
  const HeldBytes block{memory.get() + (1 << 20), 63 << 20, memory};
  const auto round = [&] {
    if (!frame.bind(context)) return false;
    frame.attach(block, outputs);
    for (ompipe::plan::SegmentId i = 0; i < ompipe::plan::SegmentId(plan->segments.size()); ++i) {
      if (!frame.run_segment(i, objects, runner)) return false;
    }
    frame.finish(context);
    frame.detach();
    return true;
  };
  REQUIRE(round());
  for (int i = 0; i < 3; ++i) {
    if (i == 1) context.inputs[0].tensor = fewer.tensor;
    const uint64_t before = allocations;
    const bool right = round();
    const uint64_t after = allocations;
    CHECK(right);
    CHECK(after - before == 0);
  }
}

TEST_SUITE_END();
