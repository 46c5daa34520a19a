// Properties of packing and multiplying drawn weights: any cutting gives the same bytes, and any order of tiles, tile
// sizes and instruction set the same bits, those of the stated chain; so do products on the file's bytes.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "matmul_fixture.h"
#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/portable.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("matmul_properties");

namespace {

// Around tiles, and around blocks of panels and of rows.
int64_t draw_rows() {
  return *rc::gen::weightedOneOf<int64_t>(
      {{3, rc::gen::inRange<int64_t>(1, 31)}, {1, rc::gen::element<int64_t>(97, 169, 192, 193, 194, 195)}});
}

// Around strips of k as well.
int64_t draw_k() {
  return *rc::gen::weightedOneOf<int64_t>(
      {{3, rc::gen::inRange<int64_t>(1, 300)}, {1, rc::gen::inRange<int64_t>(500, 1200)}});
}

Tuning draw_tuning() {
  Tuning tuning;
  tuning.tile_us = *rc::gen::element<int64_t>(1, 40, 10'000);
  tuning.rows = 6 * *rc::gen::inRange<int64_t>(4, 33);
  tuning.quantised_bytes = *rc::gen::element<int64_t>(4096, 256 << 10);
  tuning.strip_k = 32 * *rc::gen::inRange<int64_t>(2, 17);
  return tuning;
}

Order draw_order() { return *rc::gen::element(Order::forward, Order::reverse, Order::shuffled); }

MatMulSpec draw_spec() {
  MatMulSpec spec;
  spec.format = *rc::gen::element(WeightFormat::nbits, WeightFormat::nbits, WeightFormat::f32, WeightFormat::f16,
                                  WeightFormat::bf16);
  spec.k = draw_k();
  spec.n = *rc::gen::inRange<int64_t>(1, 60);
  if (spec.format != WeightFormat::nbits) {
    spec.trans_b = *rc::gen::arbitrary<bool>();
    return spec;
  }
  spec.bits = *rc::gen::element(2, 4, 8);
  spec.block = *rc::gen::element(16, 32, 64, 128, 256);
  spec.accuracy_level = *rc::gen::element(0, 4);
  spec.zero_points = *rc::gen::element(ZeroPoints::none, ZeroPoints::packed, ZeroPoints::f32, ZeroPoints::f16);
  spec.scale_type = *rc::gen::element(ScaleType::f32, ScaleType::f16);
  spec.half_scales = spec.scale_type == ScaleType::f32 && *rc::gen::arbitrary<bool>();
  return spec;
}

// A product of drawn rows, and what it gives.
struct Product {
  explicit Product(const Weights& weights) : m(draw_rows()), out(m * weights.spec.n) {
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    a = random_floats(m * weights.spec.k, random);
  }
  MatMulArgs args(const PackedLayout& layout) {
    MatMulArgs args;
    args.layout = &layout, args.m = m, args.a = a.data(), args.lda = layout.spec.k;
    args.out = out.data(), args.ldc = layout.spec.n;
    return args;
  }

  int64_t m;
  std::vector<float> a, out;
};

}  // namespace

TEST_CASE("any cutting gives the same packed bytes, any order, tuning and ISA the bits of the chain") {
  CHECK(rc::check([] {
    const MatMulSpec spec = draw_spec();
    const Weights weights = make_weights(spec, *rc::gen::arbitrary<uint32_t>());
    const PackedLayout scalar = make_layout(spec, Isa::scalar).value();
    const Buffer whole = pack(scalar, weights);
    const PackedLayout layout = make_layout(spec, *rc::gen::elementOf(isas()), draw_tuning()).value();
    const int64_t units = layout.source_bytes / cut_unit(spec);
    auto cuts = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, units + 1));
    for (int64_t& cut : cuts) cut *= cut_unit(spec);
    const Buffer packed = pack(layout, weights, cuts, *rc::gen::arbitrary<bool>());
    RC_ASSERT(packed.same_bytes(whole));

    Product product(weights);
    MatMulArgs args = product.args(layout);
    args.packed = packed.data();
    run(args, draw_order());
    const bool integer = spec.format == WeightFormat::nbits && spec.accuracy_level == 4;
    for (int64_t i = 0; i < product.m * spec.n; ++i) {
      const float* row = product.a.data() + i / spec.n * spec.k;
      const float sum = integer ? integer_chain(weights, row, i % spec.n) : chain(weights, row, i % spec.n);
      RC_ASSERT(product.out[i] == sum);
    }
  }));
}

TEST_CASE("products on the file's bytes give the bits of the packed product, and fused its packed bytes") {
  CHECK(rc::check([] {
    const Weights weights = make_weights(draw_spec(), *rc::gen::arbitrary<uint32_t>());
    const PackedLayout layout = make_layout(weights.spec, *rc::gen::elementOf(isas()), draw_tuning()).value();
    const Buffer packed = pack(layout, weights);
    Product product(weights);
    MatMulArgs args = product.args(layout);
    args.packed = packed.data();
    run(args);
    const std::vector<float> expected = product.out;
    Buffer made(layout.packed_bytes);
    Buffer shared(portable_shared_scratch_bytes(layout, product.m));
    for (const bool fused : {false, true}) {
      product.out.assign(product.out.size(), 77.0f);
      PortableArgs portable;
      portable.product = product.args(layout);
      portable.product.shared_scratch = shared.data();
      portable.sources = {weights.b.data(), weights.scales.data(), weights.zero_points.data()};
      portable.packed = fused ? made.data() : nullptr;
      run_tiles((fused ? fused_call : portable_call)(portable).value(), draw_order());
      RC_ASSERT(product.out == expected);
    }
    RC_ASSERT(made.same_bytes(packed) && shared.guard_intact() && made.guard_intact());
  }));
}

TEST_SUITE_END();
