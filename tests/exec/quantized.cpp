// Products of int8, of weights of 2 and 8 bits, and of float16 activations, through resolution, plan and frame. Numbers
// are small, so that each product and sum is exact.
#include <doctest/doctest.h>

#include <bit>

#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;
using ompipe::model::kNone;

namespace {

using Floats = std::vector<float>;

constexpr int64_t kM = 3, kK = 20, kN = 18;

Floats numbers(size_t count, int seed) {
  Floats made(count);
  for (size_t i = 0; i < count; ++i) made[i] = float(int((i * 7 + size_t(seed) * 3) % 13) - 6) / 2;
  return made;
}

Floats multiply(const Floats& a, const Floats& b, int64_t k, int64_t n) {
  Floats out(a.size() / size_t(k) * size_t(n));
  for (int64_t i = 0; i < int64_t(out.size()); ++i) {
    for (int64_t l = 0; l < k; ++l) out[size_t(i)] += a[size_t(i / n * k + l)] * b[size_t(l * n + i % n)];
  }
  return out;
}

std::vector<uint16_t> halves(const Floats& values) {
  std::vector<uint16_t> made;
  for (float value : values) made.push_back(std::bit_cast<uint16_t>(static_cast<_Float16>(value)));
  return made;
}

ompipe::model::ValueId half_weight(Graph& graph, const std::string& name, const std::vector<int64_t>& dims,
                                   const Floats& values) {
  const std::vector<uint16_t> bits = halves(values);
  return graph.weight(name, DType::f16, dims, bits.data(), bits.size() * 2, false);
}

ompipe::model::ValueId cast(Graph& graph, ompipe::model::ValueId value, DType to) {
  return graph.op("Cast", {value}, {{"to", int64_t(to)}});
}

}  // namespace

TEST_SUITE_BEGIN("quantized");

TEST_CASE("MatMulInteger: each pair of signs, zero points of one and of each column") {
  for (const bool a_signed : {false, true}) {
    for (const bool b_signed : {false, true}) {
      for (const bool columns : {false, true}) {
        Floats a, b, b_zeros;
        std::vector<uint8_t> b_bytes, zero_bytes;
        for (int64_t i = 0; i < kM * kK; ++i) a.push_back(float((i * 37) % 256 - (a_signed ? 128 : 0)));
        for (int64_t i = 0; i < kK * kN; ++i) {
          b.push_back(float((i * 53) % 256 - (b_signed ? 128 : 0)));
          b_bytes.push_back(uint8_t(int(b.back())));
        }
        for (int64_t i = 0; i < (columns ? kN : 1); ++i) {
          b_zeros.push_back(float(i * 5 % 100 + 3));
          zero_bytes.push_back(uint8_t(b_zeros.back()));
        }
        const uint8_t a_zero = 11;
        Graph graph;
        const DType a_type = a_signed ? DType::i8 : DType::u8, b_type = b_signed ? DType::i8 : DType::u8;
        const auto x = cast(graph, graph.input("x", DType::f32, {kM, kK}), a_type);
        const auto weight = graph.weight("b", b_type, {kK, kN}, b_bytes.data(), b_bytes.size(), false);
        const auto zero = graph.weight("a_zero", a_type, {}, &a_zero, 1, false);
        const auto zeros =
            graph.weight("b_zeros", b_type, {int64_t(zero_bytes.size())}, zero_bytes.data(), zero_bytes.size(), false);
        graph.output("y", cast(graph, graph.op("MatMulInteger", {x, weight, zero, zeros}), DType::f32));
        Floats left = a, right = b;
        for (float& value : left) value -= float(a_zero);
        for (size_t i = 0; i < right.size(); ++i) right[i] -= b_zeros[columns ? i % kN : 0];
        CHECK(run_floats(graph, {feed<float>("x", {kM, kK}, a)}) == multiply(left, right, kK, kN));
        CHECK(graph.plan()->objects[0].kind == ompipe::plan::ObjectKind::packed_matmul);
      }
    }
  }
}

TEST_CASE("DynamicQuantizeLinear into MatMulInteger: exact where the scale is a power of two") {
  // From -16 to 239 in steps of 1: scale 1, zero point 16.
  Floats a(kM * kK);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(int(i * 41 % 256) - 16);
  a[0] = -16, a[1] = 239;
  std::vector<uint8_t> b(kK * kN);
  Floats values;
  for (size_t i = 0; i < b.size(); ++i) {
    b[i] = uint8_t(i * 29);
    values.push_back(float(int8_t(b[i])));
  }
  Graph graph;
  const Ids quantised = graph.node("DynamicQuantizeLinear", {graph.input("x", DType::f32, {kM, kK})}, 3);
  const auto weight = graph.weight("b", DType::i8, {kK, kN}, b.data(), b.size(), false);
  const auto product = graph.op("MatMulInteger", {quantised[0], weight, quantised[2]});
  graph.output("y", graph.op("Mul", {cast(graph, product, DType::f32), quantised[1]}));
  CHECK(run_floats(graph, {feed<float>("x", {kM, kK}, a)}) == multiply(a, values, kK, kN));
}

TEST_CASE("MatMulNBits of 2, 4 and 8 bits with a bias behind absent inputs, packed zero points and fractions") {
  constexpr int64_t kBlocks = 3, kWidth = 40, kBlock = 16;  // K ends inside a block
  for (const int bits : {2, 4, 8}) {
    for (const int kind : {0, 1, 2}) {
      const int64_t blob = kBlock * bits / 8, row = (kBlocks * bits + 7) / 8;
      std::vector<uint8_t> data(size_t(kN * kBlocks * blob)), packed_zeros(size_t(kN * row));
      for (size_t i = 0; i < data.size(); ++i) data[i] = uint8_t(i * 151 + i / 7);
      for (size_t i = 0; i < packed_zeros.size(); ++i) packed_zeros[i] = uint8_t(i * 59 + 5);
      Floats scales(kN * kBlocks), zeros(kN * kBlocks), bias = numbers(kN, 4);
      for (size_t i = 0; i < scales.size(); ++i) scales[i] = i % 2 == 0 ? 0.5f : -1.0f, zeros[i] = float(i % 7) / 4;
      const auto element = [&](const std::vector<uint8_t>& bytes, int64_t at, int64_t i) {
        return bytes[size_t(at + i * bits / 8)] >> (i * bits % 8) & ((1 << bits) - 1);
      };
      Floats b(size_t(kWidth * kN));
      for (int64_t i = 0; i < kWidth * kN; ++i) {
        const int64_t k = i / kN, n = i % kN, block = k / kBlock, at = n * kBlocks + block;
        float zero = float(1 << (bits - 1));
        if (kind == 1) zero = float(element(packed_zeros, n * row, block));
        if (kind == 2) zero = zeros[size_t(at)];
        b[size_t(i)] = (float(element(data, at * blob, k % kBlock)) - zero) * scales[size_t(at)];
      }
      const Floats a = numbers(size_t(kM * kWidth), 1);
      Floats expected = multiply(a, b, kWidth, kN);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % kN];
      Graph graph;
      auto zero_point = kNone;
      if (kind == 1) zero_point = graph.weight<uint8_t>("zeros", {kN, row}, packed_zeros);
      if (kind == 2) zero_point = graph.weight<float>("zeros", {kN, kBlocks}, zeros);
      const Ids inputs{graph.input("x", DType::f32, {kM, kWidth}),
                       graph.weight<uint8_t>("b", {kN, kBlocks, blob}, data),
                       graph.weight<float>("scales", {kN, kBlocks}, scales),
                       zero_point,
                       kNone,
                       graph.weight<float>("bias", {kN}, bias)};
      graph.output("y", graph.node("MatMulNBits", inputs, 1,
                                   {{"K", kWidth}, {"N", kN}, {"bits", int64_t(bits)}, {"block_size", kBlock}},
                                   "com.microsoft")[0]);
      CHECK(run_floats(graph, {feed<float>("x", {kM, kWidth}, a)}) == expected);
    }
  }
}

TEST_CASE("float16 activations: MatMul, Gemm with C and a transposed A, MatMulNBits") {
  const Floats a = numbers(kM * kK, 1), b = numbers(kK * kN, 2), c = numbers(kN, 3);
  const Floats product = multiply(a, b, kK, kN);
  const auto x_of = [](Graph& graph, const std::vector<int64_t>& dims) {
    return cast(graph, graph.input("x", DType::f32, dims), DType::f16);
  };
  Graph plain;
  plain.output(
      "y", cast(plain, plain.op("MatMul", {x_of(plain, {kM, kK}), half_weight(plain, "b", {kK, kN}, b)}), DType::f32));
  CHECK(run_floats(plain, {feed<float>("x", {kM, kK}, a)}) == product);

  Graph gemm;
  Floats turned(a.size()), expected = product;
  for (int64_t i = 0; i < kM * kK; ++i) turned[size_t(i % kK * kM + i / kK)] = a[size_t(i)];
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] * 2 + c[i % kN];
  const Ids inputs{x_of(gemm, {kK, kM}), half_weight(gemm, "b", {kK, kN}, b), half_weight(gemm, "c", {kN}, c)};
  gemm.output("y", cast(gemm, gemm.op("Gemm", inputs, {{"alpha", 2.0f}, {"transA", int64_t(1)}}), DType::f32));
  CHECK(run_floats(gemm, {feed<float>("x", {kK, kM}, turned)}) == expected);

  for (const float zero : {8.0f, 6.0f}) {  // absent, and of the activations' type
    Graph nbits;
    std::vector<uint8_t> data(kN * 2 * 8);
    for (size_t i = 0; i < data.size(); ++i) data[i] = uint8_t(i * 151 + i / 7);
    Floats values(kK * kN);
    for (int64_t i = 0; i < kK * kN; ++i) {
      const int64_t k = i / kN, n = i % kN;
      values[size_t(i)] = (float(data[size_t(n * 16 + k / 2)] >> (k % 2 * 4) & 15) - zero) * 0.25f;
    }
    Ids operands{x_of(nbits, {kM, kK}), nbits.weight<uint8_t>("b", {kN, 2, 8}, data),
                 half_weight(nbits, "scales", {kN, 2}, Floats(kN * 2, 0.25f))};
    if (zero != 8) operands.push_back(half_weight(nbits, "zeros", {kN, 2}, Floats(kN * 2, zero)));
    const auto y =
        nbits.node("MatMulNBits", operands, 1, {{"K", kK}, {"N", kN}, {"block_size", int64_t(16)}}, "com.microsoft")[0];
    nbits.output("y", cast(nbits, y, DType::f32));
    CHECK(run_floats(nbits, {feed<float>("x", {kM, kK}, a)}) == multiply(a, values, kK, kN));
  }
}

TEST_SUITE_END();
