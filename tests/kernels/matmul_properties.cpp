// Properties of packing and multiplying drawn weights: any cutting gives the same bytes, and any order of tiles on any
// instruction set the same bits, those of the stated chain.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "matmul_fixture.h"
#include "ompipe/kernels/matmul.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("matmul_properties");

namespace {

MatMulSpec draw_spec() {
  MatMulSpec spec;
  spec.format = *rc::gen::element(WeightFormat::nbits, WeightFormat::nbits, WeightFormat::f32, WeightFormat::f16,
                                  WeightFormat::bf16);
  spec.k = *rc::gen::inRange<int64_t>(1, 300);
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

}  // namespace

TEST_CASE("any cutting gives the same packed bytes, any order and ISA the bits of the chain") {
  CHECK(rc::check([] {
    const MatMulSpec spec = draw_spec();
    const Weights weights = make_weights(spec, *rc::gen::arbitrary<uint32_t>());
    const PackedLayout scalar = make_layout(spec, Isa::scalar).value();
    const Buffer whole = pack(scalar, weights);
    const PackedLayout layout = make_layout(spec, *rc::gen::elementOf(isas())).value();
    const int64_t units = layout.source_bytes / cut_unit(spec);
    auto cuts = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, units + 1));
    for (int64_t& cut : cuts) cut *= cut_unit(spec);
    const Buffer packed = pack(layout, weights, cuts, *rc::gen::arbitrary<bool>());
    RC_ASSERT(packed.same_bytes(whole));

    const int64_t m = *rc::gen::inRange<int64_t>(1, 30);
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    const std::vector<float> a = random_floats(m * spec.k, random);
    std::vector<float> out(m * spec.n);
    MatMulArgs args;
    args.layout = &layout, args.packed = packed.data(), args.m = m, args.a = a.data(), args.lda = spec.k;
    args.out = out.data(), args.ldc = spec.n;
    run(args, *rc::gen::element(Order::forward, Order::reverse, Order::shuffled));
    const bool integer = spec.format == WeightFormat::nbits && spec.accuracy_level == 4;
    for (int64_t i = 0; i < m * spec.n; ++i) {
      const float* row = a.data() + i / spec.n * spec.k;
      RC_ASSERT(out[i] == (integer ? integer_chain(weights, row, i % spec.n) : chain(weights, row, i % spec.n)));
    }
  }));
}

TEST_SUITE_END();
