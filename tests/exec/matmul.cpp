// Products through packed objects and without: the same numbers, and the same bits, as a naive loop.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;

namespace {

using Floats = std::vector<float>;

// Small integers and halves: every product and sum is exact, so any order of summation gives these bits.
Floats numbers(size_t count, int seed) {
  Floats made(count);
  for (size_t i = 0; i < count; ++i) made[i] = float(int((i * 7 + size_t(seed) * 3) % 13) - 6) / 2;
  return made;
}

Floats multiply(const Floats& a, const Floats& b, int64_t m, int64_t k, int64_t n) {
  Floats out(size_t(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) out[size_t(i * n + j)] += a[size_t(i * k + l)] * b[size_t(l * n + j)];
    }
  }
  return out;
}

Floats transpose(const Floats& a, int64_t rows, int64_t columns) {
  Floats out(a.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) out[size_t(j * rows + i)] = a[size_t(i * columns + j)];
  }
  return out;
}

constexpr int64_t kM = 3, kK = 20, kN = 18;

}  // namespace

TEST_SUITE_BEGIN("matmul");

TEST_CASE("MatMul by a constant, an overridable and a fed matrix") {
  const Floats a = numbers(kM * kK, 1), b = numbers(kK * kN, 2);
  const Floats expected = multiply(a, b, kM, kK, kN);
  for (const bool overridable : {false, true}) {
    Graph graph;
    const auto x = graph.input("x", DType::f32, {1, kM, kK});
    graph.output("y", graph.op("MatMul", {x, graph.weight<float>("b", {kK, kN}, b, overridable)}));
    CHECK(run_floats(graph, {feed<float>("x", {1, kM, kK}, a)}) == expected);
    const bool packed = graph.plan()->objects[0].kind == ompipe::plan::ObjectKind::packed_matmul;
    CHECK(packed == !overridable);
    if (!overridable) continue;
    const Floats other = numbers(kK * kN, 5);
    const Floats fed = run_floats(graph, {feed<float>("x", {1, kM, kK}, a), feed<float>("b", {kK, kN}, other)});
    CHECK(fed == multiply(a, other, kM, kK, kN));
  }
  Graph graph;
  graph.output("y",
               graph.op("MatMul", {graph.input("x", DType::f32, {kM, kK}), graph.input("b", DType::f32, {kK, kN})}));
  CHECK(run_floats(graph, {feed<float>("x", {kM, kK}, a), feed<float>("b", {kK, kN}, b)}) == expected);
}

TEST_CASE("MatMul of vectors") {
  const Floats a = numbers(kK, 1), b = numbers(kK, 2);
  Graph graph;
  graph.output("y", graph.op("MatMul", {graph.input("a", DType::f32, {kK}), graph.input("b", DType::f32, {kK})}));
  CHECK(run_floats(graph, {feed<float>("a", {kK}, a), feed<float>("b", {kK}, b)}) == multiply(a, b, 1, kK, 1));
}

TEST_CASE("a batch of MatMul over transposed views, one of them broadcast") {
  // a: [batch, k, m] seen as [batch, m, k]; b: [k, n].
  const Floats a = numbers(2 * kK * kM, 1), b = numbers(kK * kN, 2);
  Graph graph;
  const auto x = graph.op("Neg", {graph.input("a", DType::f32, {2, kK, kM})});
  const auto turned = graph.op("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  graph.output("y", graph.op("MatMul", {turned, graph.input("b", DType::f32, {1, kK, kN})}));
  Floats expected;
  for (int batch = 0; batch < 2; ++batch) {
    Floats part(a.begin() + batch * kK * kM, a.begin() + (batch + 1) * kK * kM);
    for (float& value : part) value = -value;
    const Floats product = multiply(transpose(part, kK, kM), b, kM, kK, kN);
    expected.insert(expected.end(), product.begin(), product.end());
  }
  CHECK(run_floats(graph, {feed<float>("a", {2, kK, kM}, a), feed<float>("b", {1, kK, kN}, b)}) == expected);
}

TEST_CASE("Gemm: both transposes, alpha, beta and every shape of C, packed or not") {
  const Floats a = numbers(kM * kK, 1), b = numbers(kK * kN, 2);
  const Floats product = multiply(a, b, kM, kK, kN);
  const std::vector<std::vector<int64_t>> c_shapes{{kN}, {kM, 1}, {1}, {kM, kN}};
  for (const int transposes : {0, 1, 2, 3}) {
    const bool trans_a = transposes & 1, trans_b = transposes & 2;
    for (const auto& c_shape : c_shapes) {
      for (const bool overridable : {false, true}) {
        Graph graph;
        const std::vector<int64_t> a_shape = trans_a ? std::vector{kK, kM} : std::vector{kM, kK};
        const std::vector<int64_t> b_shape = trans_b ? std::vector{kN, kK} : std::vector{kK, kN};
        const auto x = graph.input("x", DType::f32, a_shape);
        const auto weight = graph.weight<float>("b", b_shape, trans_b ? transpose(b, kK, kN) : b, overridable);
        const Floats c = numbers(size_t(ompipe::model::element_count(c_shape)), 3);
        graph.output(
            "y",
            graph.op("Gemm", {x, weight, graph.weight<float>("c", c_shape, c)},
                     {{"alpha", 2.0f}, {"beta", 0.5f}, {"transA", int64_t(trans_a)}, {"transB", int64_t(trans_b)}}));
        Floats expected(product.size());
        for (int64_t i = 0; i < kM * kN; ++i) {
          const int64_t row = c_shape.size() == 2 ? i / kN : 0, columns = c_shape.back();
          expected[size_t(i)] = 2 * product[size_t(i)] + 0.5f * c[size_t(row * columns + (columns == 1 ? 0 : i % kN))];
        }
        CHECK(run_floats(graph, {feed<float>("x", a_shape, trans_a ? transpose(a, kM, kK) : a)}) == expected);
      }
    }
  }
}

TEST_CASE("MatMulNBits with bias at both accuracy levels") {
  constexpr int64_t kBlocks = 2, kColumns = 64;
  std::vector<uint8_t> weights(size_t(kN * kBlocks * 16));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = uint8_t(i * 37 + i / 16);
  const Floats scales = numbers(kN * kBlocks, 4), bias = numbers(kN, 2), x = numbers(kM * kColumns, 6);
  Floats expected(size_t(kM * kN));
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kN; ++n) {
      float sum = bias[size_t(n)];
      for (int64_t k = 0; k < kColumns; ++k) {
        const uint8_t pair = weights[size_t(n * kColumns / 2 + k / 2)];
        const int q = k % 2 ? pair >> 4 : pair & 15;
        sum += x[size_t(m * kColumns + k)] * float(q - 8) * scales[size_t(n * kBlocks + k / 32)];
      }
      expected[size_t(m * kN + n)] = sum;
    }
  }
  for (const int64_t level : {0, 4}) {
    Graph graph;
    const auto a = graph.input("x", DType::f32, {1, kM, kColumns});
    const auto b = graph.weight<uint8_t>("b", {kN, kBlocks, 16}, weights);
    const auto scale = graph.weight<float>("scales", {kN, kBlocks}, scales);
    graph.output(
        "y",
        graph.node(
            "MatMulNBits",
            {a, b, scale, ompipe::model::kNone, ompipe::model::kNone, graph.weight<float>("bias", {kN}, bias)}, 1,
            {{"K", kColumns}, {"N", kN}, {"bits", int64_t(4)}, {"block_size", int64_t(32)}, {"accuracy_level", level}},
            "com.microsoft")[0]);
    const Floats got = run_floats(graph, {feed<float>("x", {1, kM, kColumns}, x)});
    REQUIRE(got.size() == expected.size());
    // Level 0 is exact here; level 4 rounds A to 1/127 of its largest element.
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) <= (level == 0 ? 0.0f : 8.0f));
  }
}

namespace {

struct Bound {
  std::vector<Floats> outputs;  // of the products, in order
  std::vector<double> predicted_ns;
  std::vector<double> shared_ns;  // what each phase that went to the runner was predicted to take
  uint64_t execution_bytes = 0;
};

class RecordingRunner : public SerialTileRunner {
 public:
  explicit RecordingRunner(std::vector<double>& predicted_ns) : predicted_ns_(predicted_ns) {}
  void run(int tiles, ompipe::exec::TileFn fn, void* arg, double predicted_ns) override {
    predicted_ns_.push_back(predicted_ns);
    SerialTileRunner::run(tiles, fn, arg, predicted_ns);
  }

 private:
  std::vector<double>& predicted_ns_;
};

// Products of `rows` rows by one 4-bit weight, at these levels.
Bound products(const std::vector<int64_t>& levels, int64_t rows, const ompipe::kernels::Tuning& tuning) {
  constexpr int64_t kColumns = 96, kOutputs = 40;
  Graph graph;
  const auto x = graph.input("x", DType::f32, {rows, kColumns});
  std::vector<uint8_t> nibbles(size_t(kOutputs * kColumns / 2));
  for (size_t i = 0; i < nibbles.size(); ++i) nibbles[i] = uint8_t(i * 37 + i / 16);
  const auto b = graph.weight<uint8_t>("b", {kOutputs, kColumns / 32, 16}, nibbles);
  const auto scales = graph.weight<float>("scales", {kOutputs, kColumns / 32}, numbers(kOutputs * kColumns / 32, 4));
  for (size_t i = 0; i < levels.size(); ++i) {
    graph.output(std::to_string(i), graph.node("MatMulNBits", {x, b, scales}, 1,
                                               {{"K", kColumns},
                                                {"N", kOutputs},
                                                {"bits", int64_t(4)},
                                                {"block_size", int64_t(32)},
                                                {"accuracy_level", levels[i]}},
                                               "com.microsoft")[0]);
  }
  Floats a(size_t(rows * kColumns));
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(int(i * 37 % 101) - 50) / 7;
  RuntimeContext context;
  context.inputs = {feed<float>("x", {rows, kColumns}, a)};
  const auto plan = graph.plan({.tuning = tuning});
  REQUIRE(plan->objects.size() == 1);
  Frame frame(plan, 1);
  REQUIRE(frame.bind(context).ok());
  Bound result;
  result.execution_bytes = frame.execution_bytes();
  RecordingRunner runner(result.shared_ns);
  REQUIRE(run_bound(frame, *plan, context, graph.prepare(*plan), runner).ok());
  for (size_t i = 0; i < levels.size(); ++i) {
    result.outputs.push_back(elements_of<float>(*context.output(std::to_string(i))));
    result.predicted_ns.push_back(frame.predicted_ns(ompipe::plan::ActionId(i)));
  }
  return result;
}

}  // namespace

TEST_CASE("MatMulNBits that share a weight: each at its own accuracy level, in any order") {
  ompipe::kernels::Tuning few;  // the least tile scratch
  few.rows = 24;
  few.strip_k = 64;
  for (const ompipe::kernels::Tuning& tuning : {ompipe::kernels::Tuning{}, few}) {
    for (const int64_t rows : {1, 3, 70}) {
      CAPTURE(rows);
      const Bound alone[] = {products({0}, rows, tuning), products({4}, rows, tuning)};
      REQUIRE(alone[0].outputs != alone[1].outputs);
      // Levels 1 to 3 ask for less than float32, which level 0 gives.
      for (const auto& levels : {std::vector<int64_t>{0, 4}, {4, 0}, {4, 1, 4, 3}, {2, 4}}) {
        const Bound together = products(levels, rows, tuning);
        for (size_t i = 0; i < levels.size(); ++i) {
          CAPTURE(i);
          const Bound& own = alone[levels[i] == 4];
          CHECK(together.outputs[i] == own.outputs[0]);
          CHECK(together.predicted_ns[i] == own.predicted_ns[0]);
        }
        // Both levels' needs, not the first one's.
        CHECK(together.execution_bytes >= std::max(alone[0].execution_bytes, alone[1].execution_bytes));
        CHECK(together.execution_bytes == products({levels.rbegin(), levels.rend()}, rows, tuning).execution_bytes);
      }
    }
  }
}

TEST_CASE("a phase's predicted time is its own, however many tiles each phase has") {
  ompipe::kernels::Tuning few;
  few.rows = 24;
  const Bound whole = products({4}, 320, {}), cut = products({4}, 320, few);
  // Both phases are worth sharing: the rows' quantisation, then the product.
  REQUIRE(cut.shared_ns.size() == 2);
  CHECK(cut.shared_ns[0] < cut.shared_ns[1]);
  CHECK(cut.shared_ns[0] + cut.shared_ns[1] == doctest::Approx(cut.predicted_ns[0]));
  CHECK(whole.shared_ns == cut.shared_ns);
}

TEST_SUITE_END();
