// Products on the file's own bytes: the bits of the packed kernels, and fused the bytes of pack_range.
#include "ompipe/kernels/portable.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "matmul_fixture.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("portable");

namespace {

// Bytes at an odd address, and nothing readable behind them that asan would not report.
class OddBytes {
 public:
  explicit OddBytes(const std::vector<std::byte>& bytes) : bytes_(bytes.size() + 1) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + 1);
  }
  const std::byte* data() const { return bytes_.data() + 1; }

 private:
  std::vector<std::byte> bytes_;
};

// m rows of A, poisoned around and between, by one operand; C, alpha and beta where asked for.
struct Case {
  Case(const Weights& operand, int64_t rows, bool with_c)
      : weights(operand), b(operand.b), scales(operand.scales), zero_points(operand.zero_points), m(rows) {
    const MatMulSpec& spec = operand.spec;
    std::mt19937 random(static_cast<uint32_t>(m));
    lda = spec.k + 3;
    a.assign(1 + m * lda, std::numeric_limits<float>::quiet_NaN());
    for (int64_t row = 0; row < m; ++row) {
      const std::vector<float> values = random_floats(spec.k, random);
      std::copy(values.begin(), values.end(), a.begin() + 1 + row * lda);
    }
    if (with_c) c = random_floats(m * spec.n, random);
  }

  // A and C of f16 from now on; the outputs' bytes then stand in the first half of `out`.
  void use_halves() {
    std::mt19937 random(static_cast<uint32_t>(m));
    halves.resize(1 + m * lda + m * weights.spec.n);
    for (uint16_t& half : halves) half = random_half(random);
  }

  MatMulArgs args(const PackedLayout& layout, std::vector<float>& out) const {
    const MatMulSpec& spec = weights.spec;
    out.assign(m * (spec.n + 2), 77.0f);
    MatMulArgs args;
    args.layout = &layout;
    args.m = m;
    args.a = a.data() + 1;
    args.lda = lda;
    args.out = out.data();
    args.ldc = spec.n + 2;
    if (!c.empty()) args.c = c.data(), args.c_row_stride = spec.n, args.alpha = 0.75f, args.beta = -1.25f;
    if (!halves.empty()) {
      args.type = ElementType::f16;
      args.a = halves.data() + 1;
      if (!c.empty()) args.c = halves.data() + 1 + m * lda;
    }
    return args;
  }

  const Weights& weights;
  OddBytes b, scales, zero_points;
  int64_t m, lda;
  std::vector<float> a, c;
  std::vector<uint16_t> halves;
};

// Runs the tiles of every phase in that order with poisoned scratch of exactly the stated sizes.
void run_call(PortableArgs& args, std::optional<TiledCall> (*make)(const PortableArgs&), Order order) {
  Buffer shared(portable_shared_scratch_bytes(*args.product.layout, args.product.m, args.product.type));
  args.product.shared_scratch = shared.data();
  run_tiles(make(args).value(), order);
  CHECK(shared.guard_intact());
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

// Both ways against the packed kernel, whose outputs differ from the poison only inside [m, N].
void check(const Case& test, std::initializer_list<Order> orders = {Order::forward}) {
  for (Isa isa : isas()) {
    CAPTURE(isa_name(isa));
    const PackedLayout layout = make_layout(test.weights.spec, isa).value();
    const Buffer packed = pack(layout, test.weights);
    std::vector<float> expected, got;
    MatMulArgs product = test.args(layout, expected);
    product.packed = packed.data();
    run(product);

    for (Order order : orders) {
      PortableArgs args;
      args.sources = {test.b.data(), test.scales.data(), test.zero_points.data()};
      args.product = test.args(layout, got);
      run_call(args, portable_call, order);
      CHECK(same_bits(got, expected));

      Buffer made(layout.packed_bytes);
      args.product = test.args(layout, got);
      args.packed = made.data();
      run_call(args, fused_call, order);
      CHECK(same_bits(got, expected));
      CHECK(made.same_bytes(packed));
      CHECK(made.guard_intact());
    }
  }
}

void check_rows(const MatMulSpec& spec, std::initializer_list<int64_t> rows) {
  CAPTURE(spec.k);
  CAPTURE(spec.n);
  const Weights weights = make_weights(spec, static_cast<uint32_t>(spec.k * 131 + spec.n));
  for (int64_t m : rows) {
    CAPTURE(m);
    check(Case(weights, m, m % 2 == 0));
  }
}

}  // namespace

TEST_CASE("float weights of every type and order, at sizes around vectors, panels and cache lines") {
  for (WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
    for (bool trans_b : {false, true}) {
      CAPTURE(static_cast<int>(format));
      CAPTURE(trans_b);
      for (int64_t k : {1, 7, 8, 9, 31, 33, 64}) {
        for (int64_t n : {1, 7, 8, 15, 16, 17, 33, 64, 65}) {
          check_rows({.format = format, .k = k, .n = n, .trans_b = trans_b}, {1, 2, 3, 4, 7});
        }
      }
    }
  }
}

TEST_CASE("float weights across strips of k, tiles of columns and blocks of rows") {
  for (WeightFormat format : {WeightFormat::f32, WeightFormat::f16}) {
    for (bool trans_b : {false, true}) {
      CAPTURE(static_cast<int>(format));
      CAPTURE(trans_b);
      for (int64_t k : {255, 256, 257, 530}) {
        check_rows({.format = format, .k = k, .n = 265, .trans_b = trans_b}, {1, 3, 8, 13});
      }
    }
  }
  check_rows({.format = WeightFormat::f32, .k = 40, .n = 100}, {127, 128, 129, 257, 513, 530});
}

TEST_CASE("4-bit weights for every block, level, scale type and kind of zero point") {
  for (int block : {16, 32, 64, 128, 256}) {
    for (int level : {0, 4}) {
      for (int variant = 0; variant < 4; ++variant) {
        MatMulSpec spec = {.format = WeightFormat::nbits, .block = block, .accuracy_level = level};
        spec.zero_points = variant % 2 == 1 ? ZeroPoints::packed : ZeroPoints::none;
        spec.scale_type = variant / 2 == 1 ? ScaleType::f16 : ScaleType::f32;
        CAPTURE(block);
        CAPTURE(level);
        CAPTURE(variant);
        for (int64_t k : {1, 17, 33, 96, 270}) {
          for (int64_t n : {1, 8, 9, 35}) {
            spec.k = k, spec.n = n;
            check_rows(spec, {1, 2, 3, 4, 7});
          }
        }
      }
    }
  }
}

TEST_CASE("weights of 2, 4 and 8 bits with zero points of every type") {
  for (int bits : {2, 4, 8}) {
    for (int level : {0, 4}) {
      for (ZeroPoints zero_points : {ZeroPoints::none, ZeroPoints::packed, ZeroPoints::f32, ZeroPoints::f16}) {
        CAPTURE(bits);
        CAPTURE(level);
        CAPTURE(static_cast<int>(zero_points));
        MatMulSpec spec = {.format = WeightFormat::nbits, .k = 270, .n = 35, .bits = bits, .accuracy_level = level};
        spec.zero_points = zero_points;
        for (int block : {16, 32, 128}) {
          CAPTURE(block);
          spec.block = block;
          if (unsupported_reason(spec) == nullptr) check_rows(spec, {1, 3, 7});
        }
      }
    }
  }
}

TEST_CASE("float32 scales packed as halves, whether they fit or are rounded") {
  for (int block : {16, 32}) {
    for (bool fit : {true, false}) {
      CAPTURE(block);
      CAPTURE(fit);
      MatMulSpec spec = {.format = WeightFormat::nbits, .k = 270, .n = 35, .block = block, .accuracy_level = 4};
      spec.half_scales = fit;  // which scales are made
      Weights weights = make_weights(spec, 4);
      weights.spec.half_scales = true;
      for (int64_t m : {1, 2, 3, 4}) check(Case(weights, m, false));
    }
  }
}

TEST_CASE("A, C and outputs of float16") {
  for (MatMulSpec spec :
       {MatMulSpec{.format = WeightFormat::f32, .k = 300, .n = 37},
        MatMulSpec{.format = WeightFormat::f16, .k = 300, .n = 37, .trans_b = true},
        MatMulSpec{.format = WeightFormat::nbits, .k = 300, .n = 37, .accuracy_level = 0},
        MatMulSpec{.format = WeightFormat::nbits, .k = 300, .n = 37, .accuracy_level = 4},
        MatMulSpec{
            .format = WeightFormat::nbits, .k = 300, .n = 37, .accuracy_level = 0, .zero_points = ZeroPoints::f16},
        MatMulSpec{
            .format = WeightFormat::nbits, .k = 300, .n = 37, .accuracy_level = 4, .zero_points = ZeroPoints::f16}}) {
    const Weights weights = make_weights(spec, 5);
    for (int64_t m : {1, 3, 8, 130}) {
      CAPTURE(m);
      Case test(weights, m, m != 3);
      test.use_halves();
      check(test);
    }
  }
}

TEST_CASE("4-bit weights across chunks of blocks, tiles of columns and blocks of rows") {
  for (int level : {0, 4}) {
    for (int block : {16, 32, 64, 128}) {
      CAPTURE(level);
      CAPTURE(block);
      const MatMulSpec spec = {
          .format = WeightFormat::nbits, .k = 2100, .n = 600, .block = block, .accuracy_level = level};
      check_rows(spec, {1, 3, 8});
    }
    check_rows({.format = WeightFormat::nbits, .k = 100, .n = 50, .accuracy_level = level}, {95, 96, 97, 205});
  }
}

TEST_CASE("tiles in any order") {
  for (MatMulSpec spec : {MatMulSpec{.format = WeightFormat::f32, .k = 300, .n = 700},
                          MatMulSpec{.format = WeightFormat::bf16, .k = 300, .n = 700, .trans_b = true},
                          MatMulSpec{.format = WeightFormat::nbits, .k = 600, .n = 1300, .accuracy_level = 0},
                          MatMulSpec{.format = WeightFormat::nbits, .k = 600, .n = 1300, .accuracy_level = 4}}) {
    for (int64_t m : {1, 9, 130}) {
      CAPTURE(m);
      if (m > 100) spec.n = 290;
      const Weights weights = make_weights(spec, 5);
      check(Case(weights, m, true), {Order::reverse, Order::shuffled});
    }
  }
}

TEST_CASE("NaN, infinity and tiny rows in A give what the packed kernel gives") {
  for (MatMulSpec spec :
       {MatMulSpec{.format = WeightFormat::f32, .k = 40, .n = 20},
        MatMulSpec{.format = WeightFormat::f32, .k = 40, .n = 20, .trans_b = true},
        MatMulSpec{.format = WeightFormat::nbits, .k = 40, .n = 20, .block = 16, .accuracy_level = 4},
        MatMulSpec{.format = WeightFormat::nbits, .k = 40, .n = 20, .block = 32, .accuracy_level = 4}}) {
    const Weights weights = make_weights(spec, 16);
    for (int64_t m : {3, 5}) {
      Case test(weights, m, false);
      test.a[1 + 35] = std::numeric_limits<float>::quiet_NaN();
      test.a[1 + test.lda + 35] = std::numeric_limits<float>::infinity();
      for (int64_t k = 0; k < spec.k; ++k) test.a[1 + 2 * test.lda + k] = k % 2 == 0 ? 0.0f : 1e-42f;
      check(test);
    }
  }
}

TEST_CASE("no rows: nothing to multiply, but fused packs") {
  for (MatMulSpec spec : {MatMulSpec{.format = WeightFormat::f16, .k = 300, .n = 100},
                          MatMulSpec{.format = WeightFormat::nbits, .k = 300, .n = 100, .accuracy_level = 4}}) {
    const Weights weights = make_weights(spec, 3);
    check(Case(weights, 0, false));
    PortableArgs args;
    const PackedLayout layout = make_layout(spec, Isa::scalar).value();
    args.product.layout = &layout;
    const TiledCall call = portable_call(args).value();
    for (int phase = 0; phase < call.phase_count; ++phase) CHECK(call.tile_counts[phase] == 0);
  }
}

TEST_CASE("weights of bytes are refused, with the reason") {
  for (WeightFormat format : {WeightFormat::u8, WeightFormat::s8}) {
    const PackedLayout layout = make_layout({.format = format, .k = 40, .n = 20}, Isa::scalar).value();
    CHECK(std::string(portable_unsupported_reason(layout.spec)) ==
          "weights of bytes (u8, s8) are multiplied packed only");
    PortableArgs args;
    args.product.layout = &layout;
    args.product.m = 3;
    CHECK_FALSE(portable_call(args).has_value());
    CHECK_FALSE(fused_call(args).has_value());
  }
  CHECK(portable_unsupported_reason({.format = WeightFormat::bf16, .k = 40, .n = 20}) == nullptr);
  CHECK(std::string(portable_unsupported_reason({.format = WeightFormat::nbits, .k = 40, .n = 20, .bits = 3})) ==
        "bits must be 2, 4 or 8");
}

TEST_CASE("scratch never falls with the rows") {
  for (MatMulSpec spec : {MatMulSpec{.format = WeightFormat::f32, .k = 100, .n = 20},
                          MatMulSpec{.format = WeightFormat::nbits, .k = 1, .n = 20, .block = 16, .accuracy_level = 4},
                          MatMulSpec{.format = WeightFormat::nbits, .k = 900, .n = 90, .accuracy_level = 0}}) {
    const PackedLayout layout = make_layout(spec, Isa::scalar).value();
    for (std::optional<TiledCall> (*make)(const PortableArgs&) : {portable_call, fused_call}) {
      int64_t shared = 0;
      size_t scratch = 0;
      for (int64_t m = 0; m < 600; ++m) {
        PortableArgs args;
        args.product.layout = &layout;
        args.product.m = m;
        const size_t bytes = make(args).value().tile_scratch_bytes;
        CHECK(bytes >= scratch);
        CHECK(portable_shared_scratch_bytes(layout, m) >= shared);
        scratch = bytes;
        shared = portable_shared_scratch_bytes(layout, m);
      }
    }
  }
}

TEST_SUITE_END();
