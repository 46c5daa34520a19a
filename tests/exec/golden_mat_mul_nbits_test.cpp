// MatMulNBits alone at accuracy level 4, against ONNX Runtime's results (tests/goldens/README.md, decisions 0100 and
// 0130).
#include <doctest/doctest.h>

#include "golden_files.h"
#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::kernels::Isa;
using ompipe::model::DType;

namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;

// One row of the golden's "cases", and the operands that follow from its seed.
struct Case {
  explicit Case(const nlohmann::json& row)
      : m(row["m"]), k(row["k"]), n(row["n"]), block(row["block"]), blocks((k + block - 1) / block) {
    Generator generator(row["seed"].get<uint32_t>());
    for (int64_t i = 0; i < m * k; ++i) {
      const int64_t run = i % k / 32;
      a.push_back(float(generator.uniform() * (run % 5 == 4 ? 0 : double(1 << run % 4))));
    }
    const auto draw_bytes = [&](int64_t count) {
      Bytes bytes;
      for (int64_t i = 0; i < count; ++i) bytes.push_back(uint8_t(generator.next() >> 24));
      return bytes;
    };
    b = draw_bytes(n * blocks * block / 2);
    for (int64_t i = 0; i < n * blocks; ++i) {
      scales.push_back(float((double(generator.next() >> 16) - 32767.5) / 524288));
    }
    if (row["zero_points"]) zero_points = draw_bytes(n * ((blocks + 1) / 2));
    for (int64_t i = 0; row["bias"] && i < n; ++i) bias.push_back(float(generator.uniform()));
  }

  Floats product(int64_t level, Isa isa) const {
    Graph graph;
    const auto x = graph.input("x", DType::f32, {m, k});
    const auto weight = graph.weight<uint8_t>("b", {n, blocks, block / 2}, b);
    const auto scale = graph.weight<float>("scales", {n, blocks}, scales);
    auto zero_point = ompipe::model::kNone, offset = ompipe::model::kNone;
    if (!zero_points.empty()) {
      zero_point = graph.weight<uint8_t>("zero_points", {n, (blocks + 1) / 2}, zero_points);
    }
    if (!bias.empty()) offset = graph.weight<float>("bias", {n}, bias);
    graph.output(
        "y", graph.node("MatMulNBits", {x, weight, scale, zero_point, ompipe::model::kNone, offset}, 1,
                        {{"K", k}, {"N", n}, {"bits", int64_t(4)}, {"block_size", block}, {"accuracy_level", level}},
                        "com.microsoft")[0]);
    return run_floats(graph, {feed<float>("x", {m, k}, a)}, {.isa = isa});
  }

  int64_t m, k, n, block, blocks;
  Floats a, scales, bias;
  Bytes b, zero_points;
};

// Calls `check(case, ONNX Runtime's result)` for every case of the golden.
template <class Check>
void each_case(const Check& check) {
  const nlohmann::json file = golden("mat_mul_nbits-acc4");
  const Floats results = read_npy("mat_mul_nbits-acc4.npy");
  size_t used = 0;
  for (const nlohmann::json& row : file["cases"]) {
    CAPTURE(row.dump());
    const Case one(row);
    const size_t count = size_t(one.m * one.n);
    REQUIRE(used + count <= results.size());
    check(one, Floats(results.begin() + ptrdiff_t(used), results.begin() + ptrdiff_t(used + count)));
    used += count;
  }
  CHECK(used == results.size());
}

}  // namespace

TEST_SUITE_BEGIN("golden");

TEST_CASE("MatMulNBits at level 4, blocks of 16 and 32: within 1e-6 of the norm") {
  int checked = 0;
  double largest = 0;
  each_case([&](const Case& one, const Floats& expected) {
    if (one.block > 32) return;
    const double bound = 1e-6 * norm_of(expected);
    for (const Isa isa : {Isa::scalar, ompipe::kernels::best_isa()}) {
      const double found = distance(one.product(4, isa), expected);
      CHECK(found <= bound);
      largest = std::max(largest, found / norm_of(expected));
    }
    // What would not pass: the product of the activations as they are.
    CHECK(distance(one.product(0, Isa::scalar), expected) > 1000 * bound);
    ++checked;
  });
  CHECK(checked == 38);
  MESSAGE("largest difference ", largest, " of the norm");
}

// ONNX Runtime quantises activations by the weights' block, ompipe never by more than 32.
TEST_CASE("MatMulNBits at level 4, larger blocks: no further from level 0 than ONNX Runtime") {
  int checked = 0;
  double largest = 0;
  each_case([&](const Case& one, const Floats& expected) {
    if (one.block <= 32) return;
    const Floats exact = one.product(0, Isa::scalar), ours = one.product(4, ompipe::kernels::best_isa());
    const double peer = distance(expected, exact);
    CHECK(peer <= 2e-2 * norm_of(exact));
    CHECK(distance(ours, exact) <= 1.25 * peer);
    largest = std::max(largest, distance(ours, exact) / peer);
    ++checked;
  });
  CHECK(checked == 16);
  MESSAGE("at most ", largest, " times as far from level 0 as ONNX Runtime");
}

TEST_SUITE_END();
