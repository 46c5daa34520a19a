// GroupQueryAttention over bound caches, over fed ones, and a naive attention.
#include <doctest/doctest.h>

#include <cmath>

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

// Packed q, k, v in; lengths from the caches and from an input, as exporters write them.
Graph attention_graph() {
  Graph graph;
  const ompipe::model::Dim batch{{}, "batch"}, sequence{{}, "sequence"}, past{{}, "past"};
  const auto qkv = graph.input("qkv", DType::f32, {batch, sequence, {kWidth, {}}});
  const ompipe::model::SymbolicShape cache{batch, {kKvHeads, {}}, past, {kSize, {}}};
  const auto key = graph.input("past.key", DType::f32, cache), value = graph.input("past.value", DType::f32, cache);
  const auto last = graph.input("seqlens_k", DType::i32, {batch});
  const auto total = graph.input("total", DType::i32, ompipe::model::SymbolicShape{});
  const int32_t none = ompipe::model::kNone;
  const auto outputs = graph.node(
      "GroupQueryAttention", {qkv, none, none, key, value, last, total, none, none}, 3,
      {{"num_heads", kHeads}, {"kv_num_heads", kKvHeads}, {"scale", 0.5f}, {"do_rotary", int64_t(0)}}, "com.microsoft");
  graph.output("y", outputs[0]);
  graph.output("present.key", outputs[1]);
  graph.output("present.value", outputs[2]);
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

std::vector<NamedTensor> step_inputs(const Floats& qkv, int64_t begin, int64_t end) {
  const Floats rows(qkv.begin() + begin * kWidth, qkv.begin() + end * kWidth);
  return {feed<float>("qkv", {1, end - begin, kWidth}, rows), feed<int32_t>("seqlens_k", {1}, {int32_t(end - 1)}),
          feed<int32_t>("total", {}, {int32_t(end)})};
}

KvBinding bind_cache(const std::string& part) {
  const uint64_t bytes = uint64_t(kKvHeads * kCapacity * kSize) * 4;
  const auto memory = MemoryObjects::allocate(bytes);
  return {"past." + part, "present." + part, {memory.get(), bytes, memory}, 1, kKvHeads, kCapacity, kSize, 0};
}

void check_rows(const HeldTensor& got, const Floats& qkv, int64_t begin) {
  const Floats rows = elements_of<float>(got);
  for (int64_t row = 0; row < got.view.dim(1); ++row) {
    const Floats expected = naive(qkv, begin + row);
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(rows[size_t(row) * expected.size() + i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("attention");

TEST_CASE("a bound cache is appended in place, a fed one is copied: the same bits") {
  Graph graph = attention_graph();
  const auto plan = graph.plan();
  const MemoryObjects objects = graph.prepare(*plan);
  const Floats qkv = numbers(6 * kWidth, 1);
  SerialTileRunner runner;
  Frame frame(plan, 1);

  RuntimeContext bound;
  bound.caches = {bind_cache("key"), bind_cache("value")};
  RuntimeContext fed;
  NamedTensor key = feed<float>("past.key", {1, kKvHeads, 0, kSize}, {}),
              value = feed<float>("past.value", {1, kKvHeads, 0, kSize}, {});
  int64_t length = 0;
  for (const int64_t end : {3, 4, 6}) {
    bound.inputs = step_inputs(qkv, length, end);
    REQUIRE(frame.bind(bound).ok());
    CHECK(frame.output_bytes()[1] == 0);
    REQUIRE(run_bound(frame, *plan, bound, objects, runner).ok());
    CHECK(bound.caches[0].length == end);
    CHECK(bound.outputs.size() == 1);
    check_rows(*bound.output("y"), qkv, length);

    fed.inputs = step_inputs(qkv, length, end);
    fed.inputs.push_back(key);
    fed.inputs.push_back(value);
    REQUIRE(frame.bind(fed).ok());
    REQUIRE(run_bound(frame, *plan, fed, objects, runner).ok());
    CHECK(elements_of<float>(*fed.output("y")) == elements_of<float>(*bound.output("y")));
    CHECK(fed.output("present.key")->view.dim(2) == end);
    key.tensor = *fed.output("present.key");
    value.tensor = *fed.output("present.value");
    length = end;
  }
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
