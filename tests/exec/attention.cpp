// GroupQueryAttention over bound caches, over fed ones, and a naive attention, in float32 and float16.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;

namespace {

using Floats = std::vector<float>;

constexpr int64_t kHeads = 4, kKvHeads = 2, kSize = 8, kCapacity = 9;
constexpr int64_t kWidth = (kHeads + 2 * kKvHeads) * kSize;

Floats numbers(int64_t count, int seed) {
  Floats made;
  for (int64_t i = 0; i < count; ++i) made.push_back(float(std::sin(double(i * 3 + seed))));
  return made;
}

const ompipe::model::Dim kBatch{{}, "batch"}, kSequence{{}, "sequence"};

// An attention over packed q, k, v; lengths from the caches and from an input, as exporters write them. Its output.
ompipe::model::ValueId add_attention(Graph& graph, ompipe::model::ValueId qkv, DType cache_type,
                                     std::pair<int32_t, int32_t> rotary = {ompipe::model::kNone,
                                                                           ompipe::model::kNone}) {
  const int32_t none = ompipe::model::kNone;
  const ompipe::model::SymbolicShape cache{kBatch, {kKvHeads, {}}, {{}, "past"}, {kSize, {}}};
  const auto key = graph.shaped_input("past.key", cache_type, cache),
             value = graph.shaped_input("past.value", cache_type, cache);
  const auto last = graph.shaped_input("seqlens_k", DType::i32, {kBatch});
  const auto total = graph.input("total", DType::i32, {});
  const auto outputs =
      graph.node("GroupQueryAttention", {qkv, none, none, key, value, last, total, rotary.first, rotary.second}, 3,
                 {{"num_heads", kHeads},
                  {"kv_num_heads", kKvHeads},
                  {"scale", 0.5f},
                  {"do_rotary", int64_t(rotary.first != none)}},
                 "com.microsoft");
  graph.output("present.key", outputs[1]);
  graph.output("present.value", outputs[2]);
  return outputs[0];
}

Graph attention_graph(DType type = DType::f32, DType cache_type = DType::f32) {
  Graph graph;
  const auto qkv = graph.shaped_input("qkv", type, {kBatch, kSequence, {kWidth, {}}});
  graph.output("y", add_attention(graph, qkv, cache_type));
  return graph;
}

// What row `position` of batch 0 sees, of qkv rows [0, position].
Floats naive(const Floats& qkv, int64_t position) {
  Floats out;
  for (int64_t head = 0; head < kHeads; ++head) {
    const int64_t kv_head = head / (kHeads / kKvHeads);
    std::vector<double> scores, values(kSize);
    double sum = 0;
    for (int64_t t = 0; t <= position; ++t) {
      double score = 0;
      for (int64_t i = 0; i < kSize; ++i) {
        score += double(qkv[size_t(position * kWidth + head * kSize + i)]) *
                 double(qkv[size_t(t * kWidth + (kHeads + kv_head) * kSize + i)]);
      }
      scores.push_back(std::exp(score * 0.5));
      sum += scores.back();
    }
    for (int64_t t = 0; t <= position; ++t) {
      for (int64_t i = 0; i < kSize; ++i) {
        values[size_t(i)] +=
            scores[size_t(t)] / sum * double(qkv[size_t(t * kWidth + (kHeads + kKvHeads + kv_head) * kSize + i)]);
      }
    }
    for (const double value : values) out.push_back(float(value));
  }
  return out;
}

// Rows [begin, end) of `values`, and the lengths.
template <class T = float>
std::vector<NamedTensor> step_inputs(const Floats& values, int64_t begin, int64_t end, const std::string& name = "qkv",
                                     int64_t width = kWidth) {
  const std::vector<T> rows(values.begin() + begin * width, values.begin() + end * width);
  return {feed<T>(name, {1, end - begin, width}, rows), feed<int32_t>("seqlens_k", {1}, {int32_t(end - 1)}),
          feed<int32_t>("total", {}, {int32_t(end)})};
}

KvBinding bind_cache(const std::string& part, DType type = DType::f32) {
  const uint64_t bytes = uint64_t(kKvHeads * kCapacity * kSize) * ompipe::model::dtype_bytes(type);
  const auto memory = MemoryObjects::allocate(bytes);
  return {"past." + part, "present." + part, {memory.get(), bytes, memory}, 1, kKvHeads, kCapacity, kSize, 0};
}

template <class T>
void check_rows(const HeldTensor& got, const Floats& qkv, int64_t begin) {
  const std::vector<T> rows = elements_of<T>(got);
  const double epsilon = sizeof(T) == 2 ? 0x1p-10 : 1e-4;
  for (int64_t row = 0; row < got.view.dim(1); ++row) {
    const Floats expected = naive(qkv, begin + row);
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(double(rows[size_t(row) * expected.size() + i]) == doctest::Approx(expected[i]).epsilon(epsilon));
    }
  }
}

// Steps of several rows and of one, over rows of T and caches of C.
template <class T, class C>
void check_caches() {
  Graph graph = attention_graph(DTypeOf<T>::value, DTypeOf<C>::value);
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  Floats qkv = numbers(6 * kWidth, 1);
  for (float& number : qkv) number = float(_Float16(number));  // exact in both types
  SerialTileRunner runner;
  Frame frame(plan, 1);

  RuntimeContext bound;
  bound.caches = {bind_cache("key", DTypeOf<C>::value), bind_cache("value", DTypeOf<C>::value)};
  RuntimeContext fed;
  NamedTensor key = feed<C>("past.key", {1, kKvHeads, 0, kSize}, {}),
              value = feed<C>("past.value", {1, kKvHeads, 0, kSize}, {});
  int64_t length = 0;
  for (const int64_t end : {3, 4, 6}) {
    bound.inputs = step_inputs<T>(qkv, length, end);
    REQUIRE(frame.bind(bound).ok());
    CHECK(frame.output_bytes()[0] == 0);
    REQUIRE(run_bound(frame, *plan, bound, objects, runner).ok());
    CHECK(bound.caches[0].length == end);
    CHECK(bound.outputs.size() == 1);
    check_rows<T>(*bound.output("y"), qkv, length);

    fed.inputs = step_inputs<T>(qkv, length, end);
    fed.inputs.push_back(key);
    fed.inputs.push_back(value);
    REQUIRE(frame.bind(fed).ok());
    REQUIRE(run_bound(frame, *plan, fed, objects, runner).ok());
    CHECK(elements_of<T>(*fed.output("y")) == elements_of<T>(*bound.output("y")));
    CHECK(fed.output("present.key")->view.dim(2) == end);
    key.tensor = *fed.output("present.key");
    value.tensor = *fed.output("present.value");
    length = end;
  }
}

}  // namespace

TEST_SUITE_BEGIN("attention");

TEST_CASE("a bound cache is appended in place, a fed one is copied: the same bits") {
  check_caches<float, float>();
  check_caches<float, _Float16>();
  check_caches<_Float16, _Float16>();
  check_caches<_Float16, float>();
}

namespace {

constexpr int64_t kHidden = 32;

// The rows of a 4-bit product in float16 go to an attention, which takes them as they are, or as float32.
Graph product_graph(bool widened) {
  const DType type = widened ? DType::f32 : DType::f16;
  Graph graph;
  const auto x = graph.shaped_input("x", DType::f16, {kBatch, kSequence, {kHidden, {}}});
  std::vector<uint8_t> weight(size_t(kWidth) * 16);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = uint8_t(i * 151 + i / 7);
  std::vector<_Float16> scales;
  for (int64_t i = 0; i < kWidth; ++i) scales.push_back(_Float16(float(i % 5 + 1) / 64));
  const auto scale = graph.weight("scales", DType::f16, {kWidth, 1}, scales.data(), scales.size() * 2, false);
  auto qkv = graph.node("MatMulNBits", {x, graph.weight<uint8_t>("b", {kWidth, 1, 16}, weight), scale}, 1,
                        {{"K", kHidden}, {"N", kWidth}, {"block_size", int64_t(32)}}, "com.microsoft")[0];
  const auto table = [&](const std::string& name, int seed) {
    const Floats angles = numbers(kCapacity * kSize / 2, seed);
    const std::vector<_Float16> halves(angles.begin(), angles.end());
    const std::vector<int64_t> dims{kCapacity, kSize / 2};
    if (widened) return graph.weight<float>(name, dims, Floats(halves.begin(), halves.end()));
    return graph.weight<_Float16>(name, dims, halves);
  };
  if (widened) qkv = graph.op("Cast", {qkv}, {{"to", int64_t(type)}});
  const auto cos = table("cos", 3), sin = table("sin", 4);
  const auto y = add_attention(graph, qkv, DType::f16, {cos, sin});
  graph.output("y", widened ? graph.op("Cast", {y}, {{"to", int64_t(DType::f16)}}) : y);
  return graph;
}

}  // namespace

TEST_CASE("MatMulNBits and attention in float16 give the bits of float32 attention that is rounded at its end") {
  const Floats x = numbers(6 * kHidden, 5);
  std::vector<_Float16> rows[2];
  for (const bool widened : {false, true}) {
    Graph graph = product_graph(widened);
    const auto plan = graph.plan();
    const MemoryObjects objects = graph.prepare(*plan);
    SerialTileRunner runner;
    Frame frame(plan, 1);
    RuntimeContext context;
    context.caches = {bind_cache("key", DType::f16), bind_cache("value", DType::f16)};
    int64_t length = 0;
    for (const int64_t end : {4, 5, 6}) {
      context.inputs = step_inputs<_Float16>(x, length, end, "x", kHidden);
      REQUIRE(frame.bind(context).ok());
      REQUIRE(run_bound(frame, *plan, context, objects, runner).ok());
      for (const _Float16 element : elements_of<_Float16>(*context.output("y"))) rows[widened].push_back(element);
      length = end;
    }
  }
  CHECK(rows[0].size() == size_t(6 * kHeads * kSize));
  CHECK(rows[0] == rows[1]);
}

TEST_CASE("caches that don't fit are refused") {
  Graph graph = attention_graph();
  Frame frame(graph.plan(), 1);
  const Floats qkv = numbers(12 * kWidth, 1);
  RuntimeContext context;
  context.inputs = step_inputs(qkv, 0, 3);
  context.caches = {bind_cache("key"), bind_cache("value")};
  const auto refused = [&] {
    const ompipe::Status status = frame.bind(context);
    REQUIRE(!status.ok());
    CHECK(status.error().kind == ompipe::ErrorKind::usage);
    CHECK(status.error().subject == "past.key");
    return status.error().reason;
  };
  SUBCASE("too small a memory") {
    context.caches[0].memory.bytes -= 1;
    CHECK(refused() == "cache of 575 bytes, expected 576");
  }
  SUBCASE("too small a memory for float16") {
    Graph halves = attention_graph(DType::f32, DType::f16);
    Frame other(halves.plan(), 1);
    context.caches = {bind_cache("key", DType::f16), bind_cache("value", DType::f16)};
    REQUIRE(other.bind(context).ok());
    context.caches[0].memory.bytes -= 1;
    CHECK(other.bind(context).error().reason == "cache of 287 bytes, expected 288");
  }
  SUBCASE("too small a capacity") {
    context.inputs = step_inputs(qkv, 0, 10);
    CHECK(refused() == "cache of capacity 9, expected at least 10");
  }
  SUBCASE("the present of another past") {
    context.caches[0].present = "present.value";
    CHECK(refused() == "no attention appends to it and gives present.value");
  }
  SUBCASE("a length that the memory can't have") {
    context.caches[0].length = 10;
    CHECK(refused() == "cache of length 10 and capacity 9");
  }
  SUBCASE("fed besides") {
    context.inputs.push_back(feed<float>("past.key", {1, kKvHeads, 0, kSize}, {}));
    CHECK(refused() == "given twice");
  }
}

TEST_CASE("lengths outside the cache fail the run") {
  Graph graph = attention_graph();
  RuntimeContext context;
  context.inputs = step_inputs(numbers(6 * kWidth, 1), 2, 3);
  context.inputs[1] = feed<int32_t>("seqlens_k", {1}, {100});
  context.inputs[2] = feed<int32_t>("total", {}, {3});
  context.inputs.push_back(feed<float>("past.key", {1, kKvHeads, 2, kSize}, numbers(kKvHeads * 2 * kSize, 2)));
  context.inputs.push_back(feed<float>("past.value", {1, kKvHeads, 2, kSize}, numbers(kKvHeads * 2 * kSize, 3)));
  const ompipe::Status status = run(graph, context);
  REQUIRE(!status.ok());
  CHECK(status.error().phase == "run");
  CHECK(status.error().subject == "GroupQueryAttention_0");
}

TEST_SUITE_END();
