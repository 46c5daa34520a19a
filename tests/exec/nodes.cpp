// Every small operator against numbers worked out by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::Attribute;
using ompipe::model::ConstantTensor;
using ompipe::model::DType;

namespace {

using Floats = std::vector<float>;

Attribute axis(int64_t value) { return {"axis", value}; }
Attribute ints(const char* name, std::vector<int64_t> values) { return {name, std::move(values)}; }

Floats unary(const std::string& op, const Floats& x) {
  Graph graph;
  graph.output("y", graph.op(op, {graph.input("x", DType::f32, {int64_t(x.size())})}));
  return run_floats(graph, {feed<float>("x", {int64_t(x.size())}, x)});
}

// Of [2, 3] and [3].
Floats binary(const std::string& op, const Floats& a, const Floats& b) {
  Graph graph;
  graph.output("y", graph.op(op, {graph.input("a", DType::f32, {2, 3}), graph.input("b", DType::f32, {3})}));
  return run_floats(graph, {feed<float>("a", {2, 3}, a), feed<float>("b", {3}, b)});
}

void check_near(const Floats& got, const Floats& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

const Floats kSix{1, 2, 3, 4, 5, 6};

}  // namespace

TEST_SUITE_BEGIN("nodes");

TEST_CASE("one input, element by element") {
  const Floats x{-1, 0.25f, 4};
  check_near(unary("Relu", x), {0, 0.25f, 4});
  check_near(unary("Neg", x), {1, -0.25f, -4});
  check_near(unary("Sqrt", {0.25f, 4}), {0.5f, 2});
  check_near(unary("Sigmoid", x), {0.268941421f, 0.562176501f, 0.982013790f});
  check_near(unary("Tanh", x), {-0.761594156f, 0.244918662f, 0.999329300f});
  check_near(unary("Erf", x), {-0.842700793f, 0.276326390f, 0.999999985f});
}

// Of ONNX's formulas, in double: x/2 (1 + erf(x / sqrt 2)) and x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
TEST_CASE("Gelu in both its forms") {
  const auto gelu = [](std::vector<Attribute> attributes, const std::string& domain = {}) {
    Graph graph;
    graph.opset = 20;
    graph.output("y", graph.node("Gelu", {graph.input("x", DType::f32, {4})}, 1, std::move(attributes), domain)[0]);
    return run_floats(graph, {feed<float>("x", {4}, {-2, -0.5f, 1, 3})});
  };
  const Floats exact{-0.0455002639f, -0.154268770f, 0.841344746f, 2.99595031f};
  check_near(gelu({}), exact);
  check_near(gelu({}, "com.microsoft"), exact);
  check_near(gelu({{"approximate", std::string("none")}}), exact);
  check_near(gelu({{"approximate", std::string("tanh")}}), {-0.0454023059f, -0.154285988f, 0.841191991f, 2.99636261f});
}

TEST_CASE("two inputs broadcast") {
  check_near(binary("Add", kSix, {1, 2, 3}), {2, 4, 6, 5, 7, 9});
  check_near(binary("Sub", kSix, {1, 2, 3}), {0, 0, 0, 3, 3, 3});
  check_near(binary("Mul", kSix, {1, 2, 3}), {1, 4, 9, 4, 10, 18});
  check_near(binary("Div", kSix, {1, 2, 4}), {1, 1, 0.75f, 4, 2.5f, 1.5f});
  check_near(binary("Pow", kSix, {2, 1, 0}), {1, 2, 1, 16, 5, 1});
  check_near(binary("Min", kSix, {2, 2, 2}), {1, 2, 2, 2, 2, 2});
  check_near(binary("Max", kSix, {2, 2, 5}), {2, 2, 5, 4, 5, 6});
}

TEST_CASE("Equal, Cast and Where") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {3}), y = graph.input("z", DType::f32, {3});
  const auto same = graph.op("Equal", {x, y});
  const auto chosen = graph.op("Where", {same, graph.op("Neg", {x}), y});
  graph.output("y", graph.op("Add", {chosen, graph.op("Cast", {same}, {{"to", int64_t(DType::f32)}})}));
  check_near(run_floats(graph, {feed<float>("x", {3}, {1, 2, 3}), feed<float>("z", {3}, {1, 5, 3})}), {0, 5, -2});
}

TEST_CASE("Softmax and reductions") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {2, 2});
  const auto chances = graph.op("Softmax", {x}, {axis(-1)});
  const auto sums = graph.op("ReduceSum", {chances, graph.constant<int64_t>({1}, {1})}, {{"keepdims", int64_t(1)}});
  graph.output("y", graph.op("Mul", {chances, sums}));
  check_near(run_floats(graph, {feed<float>("x", {2, 2}, {0, 0, 0, std::log(3.0f)})}), {0.5f, 0.5f, 0.25f, 0.75f});

  Graph means;
  const auto values = means.input("x", DType::f32, {2, 3});
  means.output("y", means.op("ReduceMean", {values}, {ints("axes", {0}), {"keepdims", int64_t(0)}}));
  check_near(run_floats(means, {feed<float>("x", {2, 3}, kSix)}), {2.5f, 3.5f, 4.5f});
}

TEST_CASE("norms") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {2, 2}), skip = graph.input("skip", DType::f32, {2, 2});
  const auto gain = graph.weight<float>("gain", {2}, {1, 2});
  const auto parts =
      graph.node("SkipSimplifiedLayerNormalization", {x, skip, gain}, 4, {{"epsilon", 0.0f}}, "com.microsoft");
  graph.make_absent(parts[1]);
  graph.make_absent(parts[2]);
  graph.output("y", parts[0]);
  graph.output("sum", parts[3]);
  RuntimeContext context;
  context.inputs = {feed<float>("x", {2, 2}, {1, 0, 3, 1}), feed<float>("skip", {2, 2}, {0, 1, 0, 3})};
  const ompipe::Status status = run(graph, context);
  REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message()));
  check_near(elements_of<float>(*context.output("y")), {1, 2, 0.848528137f, 2.26274170f});
  check_near(elements_of<float>(*context.output("sum")), {1, 1, 3, 4});

  Graph simple;
  const auto rows = simple.input("x", DType::f32, {2, 2});
  simple.output("y", simple.op("SimplifiedLayerNormalization", {rows, simple.weight<float>("gain", {2}, {1, 2})},
                               {{"epsilon", 0.0f}}));
  check_near(run_floats(simple, {feed<float>("x", {2, 2}, {1, 1, 3, 4})}), {1, 2, 0.848528137f, 2.26274170f});

  Graph full;
  const auto centred = full.input("x", DType::f32, {1, 2});
  full.output("y",
              full.op("LayerNormalization",
                      {centred, full.weight<float>("gain", {2}, {1, 2}), full.weight<float>("bias", {2}, {10, 20})},
                      {{"epsilon", 0.0f}}));
  check_near(run_floats(full, {feed<float>("x", {1, 2}, {1, 3})}), {9, 22});
}

TEST_CASE("movements are views or copies with the same elements") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {2, 3});
  SUBCASE("Transpose into something that takes strides") {
    graph.output("y", graph.op("Neg", {graph.op("Transpose", {graph.op("Neg", {x})})}));
    check_near(run_floats(graph, {feed<float>("x", {2, 3}, kSix)}), {1, 4, 2, 5, 3, 6});
  }
  SUBCASE("Transpose into Softmax, which doesn't") {
    const auto turned = graph.op("Transpose", {graph.op("Neg", {x})}, {ints("perm", {1, 0})});
    graph.output("y",
                 graph.op("ReduceSum", {graph.op("Softmax", {turned}, {axis(0)}), graph.constant<int64_t>({1}, {0})}));
    check_near(run_floats(graph, {feed<float>("x", {2, 3}, kSix)}), {1, 1});
  }
  SUBCASE("Transpose as an output, and Reshape of a transposed value") {
    const auto turned = graph.op("Transpose", {x});
    graph.output("turned", turned);
    const auto turned_again = graph.op("Transpose", {graph.op("Neg", {x})});
    graph.output("y", graph.op("Reshape", {turned_again, graph.constant<int64_t>({1}, {-1})}));
    check_near(run_floats(graph, {feed<float>("x", {2, 3}, kSix)}), {-1, -4, -2, -5, -3, -6});
  }
  SUBCASE("Slice with a step and Slice backwards") {
    const auto end = graph.constant<int64_t>({1}, {3}), one = graph.constant<int64_t>({1}, {1});
    const auto zero = graph.constant<int64_t>({1}, {0}), two = graph.constant<int64_t>({1}, {2});
    const auto odd = graph.op("Slice", {x, zero, end, one, two});
    const auto start = graph.constant<int64_t>({1}, {-1}), stop = graph.constant<int64_t>({1}, {-100});
    const auto back = graph.op("Slice", {x, start, stop, zero, graph.constant<int64_t>({1}, {-1})});
    graph.output("y", graph.op("Concat", {graph.op("Neg", {odd}), graph.op("Neg", {back})}, {axis(1)}));
    check_near(run_floats(graph, {feed<float>("x", {2, 3}, kSix)}), {-1, -3, -4, -5, -6, -4, -6, -1, -2, -3});
  }
  SUBCASE("Split") {
    const auto parts = graph.node("Split", {graph.op("Neg", {x}), graph.constant<int64_t>({2}, {1, 2})}, 2, {axis(1)});
    graph.output("y", graph.op("Add", {parts[0], parts[1]}));
    check_near(run_floats(graph, {feed<float>("x", {2, 3}, kSix)}), {-3, -4, -9, -10});
  }
  SUBCASE("Expand, Unsqueeze and Squeeze") {
    const auto tall = graph.op("Unsqueeze", {x, graph.constant<int64_t>({1}, {0})});
    const auto twice = graph.op("Expand", {tall, graph.constant<int64_t>({3}, {2, 2, 3})});
    const auto both = graph.op("ReduceSum", {twice, graph.constant<int64_t>({1}, {0})});
    graph.output("y", graph.op("Squeeze", {both, graph.constant<int64_t>({1}, {0})}));
    check_near(run_floats(graph, {feed<float>("x", {2, 3}, kSix)}), {2, 4, 6, 8, 10, 12});
  }
}

TEST_CASE("shapes") {
  Graph graph;
  const auto x = graph.input("x", DType::f32, {-1, 3});
  const auto shape = graph.op("Shape", {x});
  graph.output("shape", shape);
  const auto rows = graph.op("Gather", {shape, graph.constant<int64_t>({}, {0})}, {axis(0)});
  const auto one = graph.constant<int64_t>({}, {1}), zero = graph.constant<int64_t>({}, {0});
  const auto counted = graph.op("Cast", {graph.op("Range", {zero, rows, one})}, {{"to", int64_t(DType::f32)}});
  const auto tall = graph.op("Unsqueeze", {counted, graph.constant<int64_t>({1}, {1})});
  const float seven = 7;
  ConstantTensor fill{DType::f32, {1}, std::vector<uint8_t>(4)};
  std::memcpy(fill.bytes.data(), &seven, 4);
  const auto sevens = graph.op("ConstantOfShape", {shape}, {{"value", fill}});
  graph.output("y", graph.op("Add", {sevens, tall}));
  RuntimeContext context;
  context.inputs = {feed<float>("x", {2, 3}, kSix)};
  const ompipe::Status status = run(graph, context);
  REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message()));
  CHECK(elements_of<int64_t>(*context.output("shape")) == std::vector<int64_t>{2, 3});
  CHECK(elements_of<float>(*context.output("y")) == Floats{7, 7, 7, 8, 8, 8});
}

TEST_CASE("Gather of rows, of columns and of nibbles") {
  Graph graph;
  const auto table = graph.weight<float>("table", {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto ids = graph.input("ids", DType::i64, {2});
  const auto rows = graph.op("Gather", {table, ids}, {axis(0)});
  graph.output("y", graph.op("Gather", {rows, graph.constant<int64_t>({1}, {1})}, {axis(1)}));
  check_near(run_floats(graph, {feed<int64_t>("ids", {2}, {2, -3})}), {6, 2});

  Graph nibbles;
  std::vector<uint8_t> data(2 * 8, 0x98);  // low nibble 8 is 0, high nibble 9 is 1
  data[8] = 0x1A;
  const auto packed = nibbles.weight<uint8_t>("data", {2, 8}, data);
  const auto scales = nibbles.weight<float>("scales", {2, 1}, {1, 2});
  const auto row = nibbles.input("ids", DType::i64, {1});
  nibbles.output("y", nibbles.node("GatherBlockQuantized", {packed, row, scales}, 1,
                                   {{"block_size", int64_t(16)}, {"bits", int64_t(4)}, {"quantize_axis", int64_t(1)}},
                                   "com.microsoft")[0]);
  check_near(run_floats(nibbles, {feed<int64_t>("ids", {1}, {1})}), {4, -14, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2});
}

// The bytes of a packed object, and beside it the sources that it was made from, as rows that were read.
class RowObjects : public MemoryObjects {
 public:
  explicit RowObjects(MemoryObjects objects) : MemoryObjects(std::move(objects)) {}
  const std::byte* rows(ompipe::plan::ObjectId, size_t source) const override {
    return source < sources.size() ? sources[source] : nullptr;
  }
  std::vector<const std::byte*> sources;
};

TEST_CASE("a table that a head shares: the same bits out of the packed form, out of rows, and out of the file's form") {
  constexpr int64_t kRows = 37, kWidth = 96, kBlocks = kWidth / 32;
  for (const bool zero_points : {false, true}) {
    std::vector<uint8_t> data(kRows * kWidth / 2), zeros(kRows * 2);
    Floats scales(kRows * kBlocks);
    for (size_t i = 0; i < data.size(); ++i) data[i] = uint8_t(i * 151 + i / 7);
    for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = uint8_t(i * 59 + 5);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = float(i % 17) * 0.37f - 1;
    const std::vector<int64_t> ids{36, 0, -1, 8, 7, 36};
    const auto build = [&](bool tied) {
      Graph graph;
      const auto table = graph.weight<uint8_t>("table", {kRows, kWidth / 2}, data);
      Ids inputs{table, graph.input("ids", DType::i64, {6}), graph.weight<float>("scales", {kRows, kBlocks}, scales)};
      if (zero_points) inputs.push_back(graph.weight<uint8_t>("zeros", {kRows, 2}, zeros));
      const auto rows = graph.node("GatherBlockQuantized", inputs, 1, {{"block_size", int64_t(32)}}, "com.microsoft");
      graph.output("y", rows[0]);
      if (!tied) return graph;
      inputs[0] = rows[0];
      inputs[1] = graph.reshaped(table, "head", {kRows, kBlocks, 16});
      const auto logits = graph.node("MatMulNBits", inputs, 1,
                                     {{"K", kWidth}, {"N", kRows}, {"block_size", int64_t(32)}}, "com.microsoft");
      graph.output("logits", logits[0]);
      return graph;
    };
    Graph plain = build(false), shared = build(true);
    const Floats expected = run_floats(plain, {feed<int64_t>("ids", {6}, ids)});
    CHECK(run_floats(shared, {feed<int64_t>("ids", {6}, ids)}) == expected);
    const auto plan = shared.plan();
    REQUIRE(plan->objects.size() == 1);
    RowObjects objects(shared.prepare(*plan));
    objects.sources = {reinterpret_cast<const std::byte*>(data.data()),
                       reinterpret_cast<const std::byte*>(scales.data()),
                       reinterpret_cast<const std::byte*>(zeros.data())};
    Frame frame(plan, 1);
    RuntimeContext context;
    context.inputs = {feed<int64_t>("ids", {6}, ids)};
    REQUIRE(frame.bind(context).ok());
    SerialTileRunner runner;
    REQUIRE(run_bound(frame, *plan, context, objects, runner).ok());
    CHECK(elements_of<float>(*context.output("y")) == expected);
  }
}

TEST_CASE("two tensors of different shapes over the same bytes") {
  Graph graph;
  const auto row = graph.weight<float>("row", {1, 2}, {1, 2});
  const auto column = graph.reshaped(row, "column", {2, 1});
  graph.output("y", graph.op("Add", {graph.op("Add", {graph.input("x", DType::f32, {1}), row}), column}));
  check_near(run_floats(graph, {feed<float>("x", {1}, {10})}), {12, 13, 13, 14});
}

// Up to 64 indices are followed at bind, which refuses them there.
TEST_CASE("an index outside the table is an error that names node, index and axis") {
  Graph graph;
  const auto table = graph.weight<float>("table", {3, 2}, kSix);
  graph.output("y", graph.op("Gather", {table, graph.input("ids", DType::i64, {70})}, {axis(0)}));
  RuntimeContext context;
  std::vector<int64_t> ids(70, 2);
  ids[66] = 3;
  context.inputs = {feed<int64_t>("ids", {70}, ids)};
  const ompipe::Status status = run(graph, context);
  REQUIRE(!status.ok());
  CHECK(status.error().kind == ompipe::ErrorKind::bad_model);
  CHECK(status.error().phase == "run");
  CHECK(status.error().subject == "Gather_0");
  CHECK(status.error().reason == "index 3 at position 66 is outside the axis of 3");
}

TEST_SUITE_END();
