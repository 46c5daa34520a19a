// Packing in ranges: the same bytes however a weight is cut; layouts, sizes and keys.
#include <doctest/doctest.h>

#include <set>

#include "matmul_fixture.h"
#include "ompipe/kernels/matmul.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("matmul_packing");

namespace {

std::vector<MatMulSpec> specs() {
  std::vector<MatMulSpec> all;
  for (int64_t n : {5, 16, 50}) {
    for (int64_t k : {3, 37, 64}) {
      for (WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
        for (bool trans_b : {false, true}) all.push_back({.format = format, .k = k, .n = n, .trans_b = trans_b});
      }
      for (int block : {16, 32, 64}) {
        for (int bits : {2, 8}) {
          for (ZeroPoints zero_points : {ZeroPoints::none, ZeroPoints::packed, ZeroPoints::f32, ZeroPoints::f16}) {
            all.push_back({.format = WeightFormat::nbits,
                           .k = 3 * k,
                           .n = n,
                           .bits = bits,
                           .block = block,
                           .zero_points = zero_points,
                           .half_scales = zero_points == ZeroPoints::f32});
          }
        }
        for (bool zero_points : {false, true}) {
          all.push_back({.format = WeightFormat::nbits,
                         .k = 3 * k,
                         .n = n,
                         .block = block,
                         .zero_points = zero_points ? ZeroPoints::packed : ZeroPoints::none,
                         .scale_type = zero_points ? ScaleType::f16 : ScaleType::f32});
        }
      }
    }
  }
  return all;
}

std::vector<int64_t> random_cuts(const PackedLayout& layout, int count, std::mt19937& random) {
  std::vector<int64_t> cuts;
  const int64_t unit = cut_unit(layout.spec);
  for (int i = 0; i < count; ++i)
    cuts.push_back(static_cast<int64_t>(random() % (layout.source_bytes / unit + 1)) * unit);
  return cuts;
}

}  // namespace

TEST_CASE("the packed bytes are the same for every cutting, order and ISA, and none is left unwritten") {
  std::mt19937 random(1);
  for (const MatMulSpec& spec : specs()) {
    CAPTURE(spec.k);
    CAPTURE(spec.n);
    CAPTURE(static_cast<int>(spec.format));
    CAPTURE(spec.trans_b);
    CAPTURE(spec.block);
    CAPTURE(spec.bits);
    CAPTURE(static_cast<int>(spec.zero_points));
    const Weights weights = make_weights(spec, random());
    const PackedLayout layout = make_layout(spec, Isa::scalar).value();
    const Buffer whole = pack(layout, weights);
    for (Isa isa : isas()) {
      const PackedLayout other = make_layout(spec, isa).value();
      for (int count : {0, 1, 3, 20}) {
        CHECK(pack(other, weights, random_cuts(other, count, random)).same_bytes(whole));
        CHECK(pack(other, weights, random_cuts(other, count, random), true).same_bytes(whole));
      }
    }
  }
}

TEST_CASE("a range writes only what it owns: two halves packed over different poison complete each other") {
  std::mt19937 random(2);
  for (const MatMulSpec& spec : specs()) {
    const Weights weights = make_weights(spec, random());
    const PackedLayout layout = make_layout(spec, best_isa()).value();
    const Buffer whole = pack(layout, weights);
    const int64_t cut = random_cuts(layout, 1, random)[0];
    Buffer first(layout.packed_bytes), second(layout.packed_bytes);
    for (int64_t i = 0; i < layout.packed_bytes; ++i) second.data()[i] = whole.data()[i] ^ std::byte{0xff};
    for (int64_t i = 0; i < layout.packed_bytes; ++i) first.data()[i] = second.data()[i];
    pack_range(layout, {weights.b.data(), weights.scales.data(), weights.zero_points.data()}, 0, cut, first.data());
    pack_range(layout, {weights.b.data() + cut, weights.scales.data(), weights.zero_points.data()}, cut,
               layout.source_bytes, second.data());
    int64_t wrong = 0;
    for (int64_t i = 0; i < layout.packed_bytes; ++i) {
      const bool in_first = first.data()[i] == whole.data()[i], in_second = second.data()[i] == whole.data()[i];
      wrong += in_first == in_second;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("float panels hold each element where the header says, padding columns are zero") {
  const MatMulSpec spec = {.format = WeightFormat::f32, .k = 11, .n = 21};
  const Weights weights = make_weights(spec, 3);
  Buffer packed = pack(make_layout(spec, best_isa()).value(), weights);
  for (int64_t k = 0; k < spec.k; ++k) {
    for (int64_t n = 0; n < 32; ++n) {
      CHECK(packed.floats()[16 * (k + spec.k * (n / 16)) + n % 16] ==
            (n < spec.n ? weights.values[k * spec.n + n] : 0.0f));
    }
  }
}

TEST_CASE("4-bit records hold scales, zero points and nibbles where the header says") {
  const MatMulSpec spec = {
      .format = WeightFormat::nbits, .k = 64, .n = 8, .block = 32, .zero_points = ZeroPoints::packed};
  const Weights weights = make_weights(spec, 4);
  Buffer packed = pack(make_layout(spec, best_isa()).value(), weights);
  for (int64_t block = 0; block < 2; ++block) {
    const std::byte* record = packed.data() + block * (32 + 8 + 128);
    for (int64_t n = 0; n < 8; ++n) {
      CHECK(reinterpret_cast<const float*>(record)[n] == weights.block_scales[block * 8 + n]);
      CHECK(static_cast<float>(static_cast<int>(record[32 + n])) == weights.block_zeros[block * 8 + n]);
      for (int64_t k = 0; k < 16; ++k) {
        const int byte = static_cast<int>(record[40 + k / 4 * 32 + n * 4 + k % 4]);
        CHECK((byte & 15) == weights.quants[(block * 32 + k) * 8 + n]);
        CHECK((byte >> 4) == weights.quants[(block * 32 + 16 + k) * 8 + n]);
      }
    }
  }
}

TEST_CASE("layout keys differ exactly where packed bytes do") {
  const MatMulSpec nbits = {.format = WeightFormat::nbits, .k = 64, .n = 16};
  std::vector<MatMulSpec> different(13, nbits);
  different[1].block = 64;
  different[2].zero_points = ZeroPoints::packed;
  different[3].scale_type = ScaleType::f16;
  different[4].k = 128;
  different[5].n = 24;
  different[6] = {.format = WeightFormat::f32, .k = 64, .n = 16};
  different[7] = {.format = WeightFormat::f32, .k = 64, .n = 16, .trans_b = true};
  different[8].bits = 8;
  different[9].bits = 2;
  different[10].zero_points = ZeroPoints::f32;
  different[11].zero_points = ZeroPoints::f16;
  different[12].half_scales = true;
  std::set<std::string> keys;
  for (const MatMulSpec& spec : different) keys.insert(layout_key(make_layout(spec, Isa::scalar).value()));
  CHECK(keys.size() == different.size());
  MatMulSpec level4 = nbits;
  level4.accuracy_level = 4;
  for (Isa isa : isas())
    CHECK(layout_key(make_layout(level4, isa).value()) == layout_key(make_layout(nbits, isa).value()));
}

TEST_CASE("what can't be packed is refused with a reason") {
  std::vector<MatMulSpec> bad(8, MatMulSpec{.format = WeightFormat::nbits, .k = 64, .n = 16});
  bad[0].block = 48;
  bad[1].block = 8;
  bad[2].accuracy_level = 2;
  bad[3].k = 0;
  bad[4].n = -1;
  bad[5].k = bad[5].n = int64_t{1} << 29;
  bad[6].bits = 3;
  bad[7].half_scales = true;
  bad[7].scale_type = ScaleType::f16;
  for (const MatMulSpec& spec : bad) {
    CHECK(unsupported_reason(spec) != nullptr);
    CHECK_FALSE(make_layout(spec, Isa::scalar).has_value());
  }
}

TEST_SUITE_END();
