// Products against a naive chain (the same bits) and against double precision (within the bound that eps gives).
#include "ompipe/kernels/matmul.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "matmul_fixture.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("matmul");

namespace {

// A product of m rows with everything around it poisoned: A starts at an odd float and its rows have NaN between them.
struct Product {
  Product(const Weights& weights, int64_t m, uint32_t seed) : weights_(weights), m_(m), lda_(weights.spec.k + 3) {
    const MatMulSpec& spec = weights.spec;
    const bool integer = spec.format == WeightFormat::nbits && spec.accuracy_level == 4;
    std::mt19937 random(seed);
    a_.assign(1 + m * lda_, std::numeric_limits<float>::quiet_NaN());
    for (int64_t row = 0; row < m; ++row) {
      const std::vector<float> values = random_floats(weights.spec.k, random);
      std::copy(values.begin(), values.end(), a_.begin() + 1 + row * lda_);
      for (int64_t n = 0; n < spec.n; ++n) {
        expected_.push_back(integer ? integer_chain(weights, values.data(), n) : chain(weights, values.data(), n));
      }
    }
  }
  const float* row(int64_t m) const { return a_.data() + 1 + m * lda_; }

  // out[m, N + 2] of the kernels; the columns past N must stay as they were.
  std::vector<float> compute(Isa isa, MatMulArgs args = {}, Order order = Order::forward) const {
    const PackedLayout layout = make_layout(weights_.spec, isa).value();
    const Buffer packed = pack(layout, weights_);
    std::vector<float> out(m_ * (weights_.spec.n + 2), 77.0f);
    args.layout = &layout;
    args.packed = packed.data();
    args.m = m_;
    args.a = row(0);
    args.lda = lda_;
    args.out = out.data();
    args.ldc = weights_.spec.n + 2;
    run(args, order);
    return out;
  }

  void check_bits(const std::vector<float>& out) const {
    const int64_t n = weights_.spec.n;
    int wrong = 0;
    for (int64_t m = 0; m < m_; ++m) {
      const float* got = out.data() + m * (n + 2);
      for (int64_t i = 0; i < n; ++i) wrong += got[i] != expected_[m * n + i];
      wrong += got[n] != 77.0f || got[n + 1] != 77.0f;
    }
    CHECK(wrong == 0);
  }

 private:
  const Weights& weights_;
  int64_t m_, lda_;
  std::vector<float> a_, expected_;
};

void check_all(const MatMulSpec& spec, std::initializer_list<int64_t> rows) {
  const Weights weights = make_weights(spec, static_cast<uint32_t>(spec.k * 131 + spec.n));
  for (int64_t m : rows) {
    CAPTURE(m);
    const Product product(weights, m, static_cast<uint32_t>(m));
    for (Isa isa : isas()) {
      CAPTURE(isa_name(isa));
      product.check_bits(product.compute(isa));
    }
  }
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("float weights give the stated chain at every size around panels, rows and vectors") {
  for (WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
    for (bool trans_b : {false, true}) {
      for (int64_t k : {1, 7, 8, 33}) {
        for (int64_t n : {1, 15, 16, 17, 48, 65}) {
          CAPTURE(static_cast<int>(format));
          CAPTURE(trans_b);
          CAPTURE(k);
          CAPTURE(n);
          check_all({.format = format, .k = k, .n = n, .trans_b = trans_b}, {1, 2, 3, 4, 6, 7, 13});
        }
      }
    }
  }
}

TEST_CASE("4-bit weights give the stated chain for every block, level, scale type and kind of zero point") {
  for (int block : {16, 32, 64, 128, 256}) {
    for (int level : {0, 4}) {
      for (int variant = 0; variant < 4; ++variant) {
        MatMulSpec spec = {.format = WeightFormat::nbits, .block = block, .accuracy_level = level};
        spec.zero_points = variant % 2 == 1 ? ZeroPoints::packed : ZeroPoints::none;
        spec.scale_type = variant / 2 == 1 ? ScaleType::f16 : ScaleType::f32;
        for (int64_t k : {1, 17, 96, 270}) {
          for (int64_t n : {1, 8, 9, 35}) {
            spec.k = k, spec.n = n;
            CAPTURE(block);
            CAPTURE(level);
            CAPTURE(variant);
            CAPTURE(k);
            CAPTURE(n);
            check_all(spec, {1, 2, 3, 7});
          }
        }
      }
    }
  }
}

TEST_CASE("many rows and many tiles, in any order of tiles") {
  for (MatMulSpec spec :
       {MatMulSpec{.format = WeightFormat::f32, .k = 600, .n = 100},
        MatMulSpec{.format = WeightFormat::nbits, .k = 600, .n = 100, .block = 32, .accuracy_level = 4},
        MatMulSpec{.format = WeightFormat::nbits, .k = 600, .n = 100, .block = 64, .accuracy_level = 0}}) {
    const Weights weights = make_weights(spec, 5);
    for (int64_t m : {97, 205}) {
      const Product product(weights, m, 6);
      for (Isa isa : isas()) {
        const std::vector<float> forward = product.compute(isa);
        product.check_bits(forward);
        CHECK(product.compute(isa, {}, Order::reverse) == forward);
        CHECK(product.compute(isa, {}, Order::shuffled) == forward);
      }
    }
  }
}

TEST_CASE("rows around blocks of panels and of rows") {
  for (MatMulSpec spec : {MatMulSpec{.format = WeightFormat::f32, .k = 520, .n = 70},
                          MatMulSpec{.format = WeightFormat::bf16, .k = 520, .n = 70, .trans_b = true},
                          MatMulSpec{.format = WeightFormat::nbits, .k = 520, .n = 70, .accuracy_level = 0}}) {
    CAPTURE(static_cast<int>(spec.format));
    check_all(spec, {23, 24, 25, 169, 170, 193});
  }
}

TEST_CASE("K around the length of a strip") {
  const int64_t strip = Tuning().strip_k;
  for (const int64_t k : {strip, strip + 1, 2 * strip + 33}) {
    for (MatMulSpec spec : {MatMulSpec{.format = WeightFormat::f32, .k = k, .n = 21},
                            MatMulSpec{.format = WeightFormat::nbits, .k = k, .n = 32, .block = 16},
                            MatMulSpec{.format = WeightFormat::nbits, .k = k, .n = 21, .block = 256}}) {
      CAPTURE(spec.k);
      CAPTURE(spec.block);
      check_all(spec, {4, 25});
    }
  }
}

TEST_CASE("a product of one row over many column tiles") {
  for (MatMulSpec spec :
       {MatMulSpec{.format = WeightFormat::f32, .k = 512, .n = 2100, .trans_b = true},
        MatMulSpec{.format = WeightFormat::nbits, .k = 1024, .n = 4100, .block = 32, .accuracy_level = 4}}) {
    const Weights weights = make_weights(spec, 7);
    const Product product(weights, 1, 8);
    for (Isa isa : isas()) product.check_bits(product.compute(isa, {}, Order::shuffled));
  }
}

TEST_CASE("within the rounding bound of a double-precision product") {
  const MatMulSpec spec = {.format = WeightFormat::f32, .k = 400, .n = 40};
  const Weights weights = make_weights(spec, 9);
  const Product product(weights, 5, 10);
  const std::vector<float> out = product.compute(best_isa());
  for (int64_t m = 0; m < 5; ++m) {
    for (int64_t n = 0; n < spec.n; ++n) {
      double exact = 0, magnitude = 0;
      for (int64_t k = 0; k < spec.k; ++k) {
        exact += double(product.row(m)[k]) * weights.values[k * spec.n + n];
        magnitude += std::fabs(double(product.row(m)[k]) * weights.values[k * spec.n + n]);
      }
      const double bound = magnitude * static_cast<double>(spec.k) * std::numeric_limits<float>::epsilon() / 2;
      CHECK(std::fabs(out[m * (spec.n + 2) + n] - exact) <= bound);
    }
  }
}

TEST_CASE("accuracy_level 4 stays within 1e-2 of the unquantised product's norm") {
  for (int block : {16, 32, 128}) {
    const MatMulSpec spec = {.format = WeightFormat::nbits, .k = 512, .n = 64, .block = block, .accuracy_level = 4};
    const Weights weights = make_weights(spec, 11);
    const Product product(weights, 3, 12);
    const std::vector<float> out = product.compute(best_isa());
    std::vector<double> exact, error;
    for (int64_t m = 0; m < 3; ++m) {
      for (int64_t n = 0; n < spec.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < spec.k; ++k) sum += double(product.row(m)[k]) * weights.values[k * spec.n + n];
        exact.push_back(sum);
        error.push_back(out[m * (spec.n + 2) + n] - sum);
      }
    }
    CHECK(norm(error) <= 1e-2 * norm(exact));
    CHECK(norm(error) > 1e-6 * norm(exact));
  }
}

TEST_CASE("alpha, beta and C with each broadcast, and a bias") {
  const int64_t m = 7, n = 21;
  std::mt19937 random(13);
  const std::vector<float> c = random_floats(m * n, random);
  struct Broadcast {
    int64_t row_stride, column_stride;
  };
  const int64_t two_strips = Tuning().strip_k + 5;
  for (MatMulSpec spec :
       {MatMulSpec{.format = WeightFormat::f32, .k = 30, .n = n},
        MatMulSpec{.format = WeightFormat::nbits, .k = 30, .n = n, .block = 32, .accuracy_level = 0},
        MatMulSpec{.format = WeightFormat::nbits, .k = 30, .n = n, .block = 32, .accuracy_level = 4},
        MatMulSpec{.format = WeightFormat::nbits, .k = two_strips, .n = n, .block = 32, .accuracy_level = 0}}) {
    const Weights weights = make_weights(spec, 14);
    const Product product(weights, m, 15);
    const std::vector<float> plain = product.compute(Isa::scalar);
    for (Broadcast broadcast : {Broadcast{n, 1}, Broadcast{0, 1}, Broadcast{1, 0}, Broadcast{0, 0}}) {
      MatMulArgs args;
      args.c = c.data();
      args.c_row_stride = broadcast.row_stride;
      args.c_column_stride = broadcast.column_stride;
      args.alpha = 0.75f;
      args.beta = -1.25f;
      for (Isa isa : isas()) {
        const std::vector<float> out = product.compute(isa, args);
        int wrong = 0;
        for (int64_t row = 0; row < m; ++row) {
          for (int64_t column = 0; column < n; ++column) {
            const float addend = c[row * broadcast.row_stride + column * broadcast.column_stride];
            wrong += out[row * (n + 2) + column] != std::fma(-1.25f, addend, 0.75f * plain[row * (n + 2) + column]);
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("NaN and infinity in A reach the outputs of their row and no other; zero and tiny rows give finite results") {
  for (MatMulSpec spec :
       {MatMulSpec{.format = WeightFormat::f32, .k = 40, .n = 20},
        MatMulSpec{.format = WeightFormat::nbits, .k = 40, .n = 20, .block = 16, .accuracy_level = 4},
        MatMulSpec{.format = WeightFormat::nbits, .k = 40, .n = 20, .block = 32, .accuracy_level = 4}}) {
    const Weights weights = make_weights(spec, 16);
    for (Isa isa : isas()) {
      const PackedLayout layout = make_layout(spec, isa).value();
      const Buffer packed = pack(layout, weights);
      std::vector<float> a(4 * spec.k, 0.5f), out(4 * spec.n);
      a[0 * spec.k + 35] = std::numeric_limits<float>::quiet_NaN();
      a[1 * spec.k + 35] = std::numeric_limits<float>::infinity();
      for (int64_t k = 0; k < spec.k; ++k) a[2 * spec.k + k] = k % 2 == 0 ? 0.0f : 1e-42f;
      MatMulArgs args;
      args.layout = &layout, args.packed = packed.data(), args.m = 4, args.a = a.data(), args.lda = spec.k;
      args.out = out.data(), args.ldc = spec.n;
      run(args);
      for (int64_t n = 0; n < spec.n; ++n) {
        CHECK_FALSE(std::isfinite(out[n]));
        CHECK_FALSE(std::isfinite(out[spec.n + n]));
        CHECK(std::fabs(out[2 * spec.n + n]) < 1e-30f);
        CHECK(std::isfinite(out[3 * spec.n + n]));
      }
    }
  }
}

TEST_CASE("no rows, no work; scratch never falls with the rows") {
  for (int level : {0, 4}) {
    const MatMulSpec spec = {.format = WeightFormat::nbits, .k = 100, .n = 20, .accuracy_level = level};
    const PackedLayout layout = make_layout(spec, Isa::scalar).value();
    int64_t shared = 0;
    size_t scratch = 0;
    for (int64_t m = 0; m < 300; ++m) {
      MatMulArgs args;
      args.layout = &layout;
      args.m = m;
      const TiledCall call = matmul_call(args);
      if (m == 0) CHECK(call.tile_counts[call.phase_count - 1] == 0);
      CHECK(shared_scratch_bytes(layout, m) >= shared);
      CHECK(call.tile_scratch_bytes >= scratch);
      shared = shared_scratch_bytes(layout, m);
      scratch = call.tile_scratch_bytes;
    }
  }
}

TEST_SUITE_END();
