#include "ompipe/kernels/gather.h"

#include <doctest/doctest.h>

#include <numeric>

#include "matmul_fixture.h"
#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("gather");

namespace {

template <class T>
void check_gather(ElementType type, ElementType index_type, int64_t outer, int64_t inner) {
  const int64_t axis = 6;
  std::vector<T> data(size_t(outer * axis * inner));
  std::iota(data.begin(), data.end(), T(0));
  const std::vector<int64_t> wide = {0, 5, -1, -6, 3};
  const std::vector<int32_t> narrow(wide.begin(), wide.end());
  std::vector<T> output(size_t(outer * 5 * inner));
  GatherArguments a;
  a.type = type;
  a.data = data.data();
  a.output = output.data();
  a.indices = {index_type, index_type == ElementType::i32 ? static_cast<const void*>(narrow.data()) : wide.data(), 5};
  a.outer = outer;
  a.axis_size = axis;
  a.inner = inner;
  REQUIRE(find_bad_index(a.indices, axis) == -1);
  run_tiles(gather_call(a), Order::backward);
  for (int64_t i = 0; i < outer * 5 * inner; ++i) {
    const int64_t index = (wide[size_t(i / inner % 5)] + axis) % axis;
    REQUIRE(output[size_t(i)] == data[size_t((i / inner / 5 * axis + index) * inner + i % inner)]);
  }
}

}  // namespace

TEST_CASE("gather takes slices of any axis, negative indices too") {
  for (int64_t outer : {1, 3}) {
    for (int64_t inner : {1, 7, 5000}) {
      check_gather<float>(ElementType::f32, ElementType::i64, outer, inner);
      check_gather<int64_t>(ElementType::i64, ElementType::i32, outer, inner);
      check_gather<uint8_t>(ElementType::u8, ElementType::i32, outer, inner);
      check_gather<uint16_t>(ElementType::f16, ElementType::i64, outer, inner);
    }
  }
}

TEST_CASE("the first index out of range is reported") {
  const std::vector<int64_t> low = {0, -7, 9}, high = {5, 6}, none;
  CHECK(find_bad_index({ElementType::i64, low.data(), 3}, 6) == 1);
  CHECK(find_bad_index({ElementType::i64, high.data(), 2}, 6) == 1);
  CHECK(find_bad_index({ElementType::i64, low.data(), 1}, 0) == 0);
  CHECK(find_bad_index({ElementType::i64, none.data(), 0}, 0) == -1);
  const std::vector<int32_t> narrow = {1, 2, std::numeric_limits<int32_t>::min()};
  CHECK(find_bad_index({ElementType::i32, narrow.data(), 3}, 6) == 2);
}

TEST_CASE("rows of 4-bit tables, with and without zero points, odd blocks and tails") {
  for (int64_t columns : {16, 33, 64, 96, 512}) {
    for (int64_t block : {16, 32}) {
      for (bool with_zero_points : {false, true}) {
        const int64_t rows = 9, blocks = (columns + block - 1) / block;
        std::mt19937 random(7);
        std::vector<uint8_t> nibbles(size_t(rows * ((columns + 1) / 2))), zeros(size_t(rows * ((blocks + 1) / 2)));
        for (uint8_t& byte : nibbles) byte = uint8_t(random());
        for (uint8_t& byte : zeros) byte = uint8_t(random());
        const std::vector<float> scales = random_floats(size_t(rows * blocks), 3);
        const std::vector<int32_t> indices = {8, 0, -2, 3};
        GatherNibbles4Arguments a;
        a.table = {nibbles.data(), scales.data(), with_zero_points ? zeros.data() : nullptr};
        a.indices = {ElementType::i32, indices.data(), 4};
        a.rows = rows;
        a.columns = columns;
        a.block = block;
        std::vector<float> output(size_t(4 * columns));
        a.output = output.data();
        run_tiles(gather_nibbles4_call(a));
        for (int64_t i = 0; i < 4 * columns; ++i) {
          const int64_t row = (indices[size_t(i / columns)] + rows) % rows, column = i % columns;
          const auto bits = [](const std::vector<uint8_t>& from, int64_t row_bytes, int64_t r, int64_t c) {
            const int byte = from[size_t(r * row_bytes + c / 2)];
            return c % 2 == 0 ? byte & 15 : byte >> 4;
          };
          const int zero = with_zero_points ? bits(zeros, (blocks + 1) / 2, row, column / block) : 8;
          const int q = bits(nibbles, (columns + 1) / 2, row, column);
          REQUIRE(output[size_t(i)] == float(q - zero) * scales[size_t(row * blocks + column / block)]);
        }
      }
    }
  }
}

TEST_CASE("rows out of a packed weight have the bits of rows out of the file") {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    MatMulSpec spec = {.format = WeightFormat::nbits,
                       .k = 1 + int64_t(random() % 300),
                       .n = 1 + int64_t(random() % 40),
                       .block = 16 << random() % 4,
                       .accuracy_level = int(random() % 2) * 4,
                       .zero_points = random() % 2 == 0 ? ZeroPoints::packed : ZeroPoints::none,
                       .half_scales = random() % 2 == 0};
    CAPTURE(spec.half_scales);
    CAPTURE(spec.k);
    CAPTURE(spec.n);
    CAPTURE(spec.block);
    CAPTURE(static_cast<int>(spec.zero_points));
    const test::Weights weights = test::make_weights(spec, uint32_t(random()));
    const int64_t blocks = (spec.k + spec.block - 1) / spec.block, width = blocks * spec.block;
    std::vector<int64_t> indices(1 + random() % 20);
    for (int64_t& index : indices) index = int64_t(random() % uint64_t(2 * spec.n)) - spec.n;
    // Whole blocks, as the file holds them, whatever K is.
    GatherNibbles4Arguments file;
    file.table = {
        reinterpret_cast<const uint8_t*>(weights.b.data()), reinterpret_cast<const float*>(weights.scales.data()),
        spec.zero_points != ZeroPoints::none ? reinterpret_cast<const uint8_t*>(weights.zero_points.data()) : nullptr};
    file.indices = {ElementType::i64, indices.data(), int64_t(indices.size())};
    file.rows = spec.n;
    file.columns = width;
    file.block = spec.block;
    std::vector<float> expected(indices.size() * size_t(width));
    file.output = expected.data();
    run_tiles(gather_nibbles4_call(file));
    for (const Isa isa : test::isas()) {
      const PackedLayout layout = make_layout(spec, isa).value();
      const test::Buffer packed = test::pack(layout, weights);
      for (const int64_t columns : {width, spec.k}) {
        std::vector<float> output(indices.size() * size_t(columns) + 1, kNaN);
        const GatherPackedArguments a{&layout, packed.data(), output.data(), file.indices, columns};
        run_tiles(gather_packed_call(a), Order::backward);
        for (size_t row = 0; row < indices.size(); ++row) {
          const std::span<const float> from = std::span(expected).subspan(row * size_t(width), size_t(columns));
          REQUIRE(first_difference(std::span(output).subspan(row * size_t(columns), size_t(columns)), from) == -1);
        }
        REQUIRE(std::isnan(output.back()));
      }
    }
  }
}

TEST_SUITE_END();
