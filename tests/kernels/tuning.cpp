// Tile sizes change how work is cut, and neither bits nor packed bytes.
#include "ompipe/kernels/tuning.h"

#include <doctest/doctest.h>

#include "matmul_fixture.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("tuning");

namespace {

Tuning tuned(std::initializer_list<std::pair<const char*, int64_t>> fields) {
  Tuning tuning;
  for (const auto& [name, value] : fields) REQUIRE(set_tuning(tuning, name, value) == nullptr);
  return tuning;
}

std::vector<float> product(const Weights& weights, int64_t m, const std::vector<float>& a, const Tuning& tuning) {
  const PackedLayout layout = make_layout(weights.spec, best_isa(), tuning).value();
  const Buffer packed = pack(layout, weights);
  std::vector<float> out(static_cast<size_t>(m * weights.spec.n));
  MatMulArgs args;
  args.layout = &layout;
  args.packed = packed.data();
  args.m = m;
  args.a = a.data();
  args.lda = weights.spec.k;
  args.out = out.data();
  args.ldc = weights.spec.n;
  run(args);
  return out;
}

int64_t tiles(const MatMulSpec& spec, int64_t m, const Tuning& tuning, size_t phase = 0) {
  const PackedLayout layout = make_layout(spec, best_isa(), tuning).value();
  MatMulArgs args;
  args.layout = &layout;
  args.m = m;
  return matmul_call(args).tile_counts[phase];
}

}  // namespace

TEST_CASE("every tuning gives the same bits and the same layout key") {
  const Tuning tunings[] = {
      tuned({{"rows", 24}, {"tile-us", 1}, {"strip-k", 64}, {"quantised-bytes", 4096}}),
      tuned({{"rows", 192}, {"tile-us", 10'000}, {"strip-k", 4096}, {"quantised-bytes", 1 << 30}}),
  };
  MatMulSpec floats, level0, level4;
  floats.k = 300, floats.n = 70;
  level0 = floats;
  level0.format = WeightFormat::nbits;
  level4 = level0;
  level4.accuracy_level = 4;
  for (const MatMulSpec& spec : {floats, level0, level4}) {
    const Weights weights = make_weights(spec, 7);
    for (const int64_t m : {1, 3, 169, 200}) {  // 169 = 7 blocks of 24 rows and a lone one
      std::mt19937 random(11);
      const std::vector<float> a = random_floats(m * spec.k, random);
      const std::vector<float> expected = product(weights, m, a, Tuning());
      for (const Tuning& tuning : tunings) {
        CHECK(product(weights, m, a, tuning) == expected);
        CHECK(layout_key(*make_layout(spec, best_isa(), tuning)) == layout_key(*make_layout(spec, best_isa())));
      }
    }
  }
}

TEST_CASE("more rows and longer tiles make fewer tiles") {
  MatMulSpec spec;
  spec.k = 512, spec.n = 1024;
  CHECK(tiles(spec, 192, tuned({{"rows", 24}})) > tiles(spec, 192, tuned({{"rows", 192}})));
  CHECK(tiles(spec, 1, tuned({{"tile-us", 1}})) > tiles(spec, 1, tuned({{"tile-us", 1000}})));
  spec.format = WeightFormat::nbits;
  spec.accuracy_level = 4;
  CHECK(tiles(spec, 96, tuned({{"quantised-bytes", 4096}})) > tiles(spec, 96, tuned({{"quantised-bytes", 1 << 20}})));
}

TEST_CASE("a value out of range, or a name that isn't there, changes nothing and says what was expected") {
  Tuning tuning;
  CHECK(std::string(set_tuning(tuning, "rows", 25)) == "rows must be a multiple of 6 from 24 to 192");
  CHECK(std::string(set_tuning(tuning, "rows", 198)) == "rows must be a multiple of 6 from 24 to 192");
  CHECK(std::string(set_tuning(tuning, "strip-k", 32)) == "strip-k must be a multiple of 32 from 64 to 4096");
  CHECK(std::string(set_tuning(tuning, "tile-us", 0)) == "tile-us must be 1 to 10000");
  CHECK(std::string(set_tuning(tuning, "columns", 8)) == "the names are tile-us, rows, quantised-bytes and strip-k");
  CHECK(tuning.rows == Tuning().rows);
  CHECK(tuning.strip_k == Tuning().strip_k);
  CHECK(tuning.tile_us == Tuning().tile_us);
}

TEST_CASE("a layout isn't made with tile sizes that set_tuning refuses") {
  const MatMulSpec spec = {.format = WeightFormat::nbits, .k = 300, .n = 40};
  const std::pair<Tuning, const char*> wrong[] = {
      {{.tile_us = 0}, "tile-us must be 1 to 10000"},
      {{.rows = 18}, "rows must be a multiple of 6 from 24 to 192"},
      {{.rows = 198}, "rows must be a multiple of 6 from 24 to 192"},
      {{.quantised_bytes = 0}, "quantised-bytes must be 4096 to 1G"},
      {{.strip_k = 100}, "strip-k must be a multiple of 32 from 64 to 4096"},
      {{.strip_k = -64}, "strip-k must be a multiple of 32 from 64 to 4096"},
  };
  for (const auto& [tuning, expected] : wrong) {
    CHECK(std::string(tuning_error(tuning)) == expected);
    CHECK_FALSE(make_layout(spec, Isa::scalar, tuning).has_value());
  }
  CHECK(tuning_error(tuning_of_this_cpu()) == nullptr);
  CHECK(make_layout(spec, Isa::scalar, tuned({{"rows", 24}, {"strip-k", 4096}})).has_value());
}

TEST_CASE("fields are listed, and read as they were set") {
  const Tuning tuning = tuned({{"tile-us", 7}, {"rows", 30}, {"quantised-bytes", 5000}, {"strip-k", 96}});
  const std::pair<std::string, int64_t> wanted[] = {
      {"tile-us", 7}, {"rows", 30}, {"quantised-bytes", 5000}, {"strip-k", 96}};
  int index = 0;
  for (const auto& [name, value] : wanted) {
    CHECK(tuning_name(index++) == name);
    CHECK(tuning_value(tuning, name) == value);
  }
  CHECK(tuning_name(index) == nullptr);
  CHECK(tuning_name(-1) == nullptr);
  CHECK_FALSE(tuning_value(tuning, "columns").has_value());
}

TEST_CASE("the profile keeps quantised rows in half of L2, and shortens strips where it is small") {
  CHECK(tuning_for(1 << 20).quantised_bytes == 512 << 10);
  CHECK(tuning_for(0).quantised_bytes == Tuning().quantised_bytes);
  CHECK(tuning_for(256 << 10).strip_k == 1280);
  for (const int64_t l2_bytes : {int64_t{0}, int64_t{512} << 10, int64_t{2} << 20}) {
    CHECK(tuning_for(l2_bytes).strip_k == Tuning().strip_k);
  }
  for (const int64_t l2_bytes : {int64_t{1}, int64_t{100'000}, int64_t{1} << 40}) {
    CHECK(tuning_error(tuning_for(l2_bytes)) == nullptr);
  }
}

TEST_CASE("few columns are made up for by more blocks of rows") {
  MatMulSpec spec;
  spec.k = 8192;
  for (const int64_t n : {64, 128, 896, 4096}) {
    spec.n = n;
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::nbits}) {
      spec.format = format;
      CHECK(tiles(spec, 768, Tuning()) >= 32);
    }
  }
}

TEST_SUITE_END();
