#include "ompipe/kernels/rotary.h"

#include <doctest/doctest.h>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("rotary");

TEST_CASE("rotation of halves and of neighbours equals double, the rest passes, in place too") {
  for (int64_t pairs : {1, 4, 7, 8, 16, 32, 33}) {
    for (int64_t rest : {0, 3}) {
      for (bool interleaved : {false, true}) {
        const int64_t batch = 2, sequence = 19, heads = 3, size = 2 * pairs + rest, positions = 50;
        const std::vector<float> cos = random_floats(size_t(positions * pairs), 1, -1, 1);
        const std::vector<float> sin = random_floats(size_t(positions * pairs), 2, -1, 1);
        const std::vector<float> x = random_floats(size_t(batch * sequence * heads * size), 3);
        std::vector<int64_t> ids(size_t(batch * sequence));
        for (size_t i = 0; i < ids.size(); ++i) ids[i] = int64_t(i * 7 % 50);
        RotaryArguments a;
        a.table = {cos.data(), sin.data(), positions, pairs, interleaved};
        a.batch = batch;
        a.sequence = sequence;
        a.heads = heads;
        a.head_size = size;
        const int64_t strides[3] = {sequence * heads * size, heads * size, size};
        for (int i = 0; i < 3; ++i) a.x_strides[i] = a.y_strides[i] = strides[i];
        a.position_ids = ids.data();
        REQUIRE(find_bad_position(a) == -1);
        const std::vector<float> y = run_everywhere(poisoned(x.size()), [&](Isa isa, float* to) {
          a.x = x.data();
          a.y = to;
          return rotary_call(a, isa);
        });
        const std::vector<float> in_place = run_everywhere(x, [&](Isa isa, float* to) {
          a.x = a.y = to;
          return rotary_call(a, isa);
        });
        CHECK(first_difference(y, in_place) == -1);
        for (int64_t head = 0; head < batch * sequence * heads; ++head) {
          const float* from = x.data() + head * size;
          const float* to = y.data() + head * size;
          const int64_t row = ids[size_t(head / heads)] * pairs;
          for (int64_t i = 0; i < pairs; ++i) {
            const int64_t p = interleaved ? 2 * i : i, q = interleaved ? 2 * i + 1 : i + pairs;
            const double c = cos[size_t(row + i)], s = sin[size_t(row + i)];
            const double bound = 4 * kEpsilon * (std::abs(from[p]) + std::abs(from[q]));
            REQUIRE(std::abs(to[p] - (from[p] * c - from[q] * s)) <= bound);
            REQUIRE(std::abs(to[q] - (from[p] * s + from[q] * c)) <= bound);
          }
          for (int64_t i = 2 * pairs; i < size; ++i) REQUIRE(to[i] == from[i]);
        }
      }
    }
  }
}

TEST_CASE("a float16 table gives the bits of the same numbers as float32") {
  const int64_t pairs = 13, positions = 10, size = 2 * pairs + 1;
  std::vector<_Float16> cos, sin;
  for (const float value : random_floats(size_t(positions * pairs), 1, -1, 1)) cos.push_back(_Float16(value));
  for (const float value : random_floats(size_t(positions * pairs), 2, -1, 1)) sin.push_back(_Float16(value));
  const std::vector<float> wide_cos(cos.begin(), cos.end()), wide_sin(sin.begin(), sin.end());
  const std::vector<float> x = random_floats(size_t(size), 3);
  const int64_t position = 7;
  RotaryArguments a;
  a.batch = a.sequence = a.heads = 1;
  a.head_size = size;
  a.x = x.data();
  a.position_ids = &position;
  for (const bool interleaved : {false, true}) {
    const auto run = [&](RotaryTable table) {
      a.table = table;
      return run_everywhere(poisoned(x.size()), [&](Isa isa, float* to) {
        a.y = to;
        return rotary_call(a, isa);
      });
    };
    const auto halves = run({cos.data(), sin.data(), positions, pairs, interleaved, ElementType::f16});
    CHECK(first_difference(halves, run({wide_cos.data(), wide_sin.data(), positions, pairs, interleaved})) == -1);
  }
}

TEST_CASE("one offset for all rows equals explicit positions") {
  const int64_t pairs = 8, positions = 10, sequence = 4;
  const std::vector<float> cos = random_floats(80, 1), sin = random_floats(80, 2), x = random_floats(2 * 4 * 16, 3);
  const std::vector<int64_t> explicit_ids = {5, 6, 7, 8, 5, 6, 7, 8}, offset = {5};
  RotaryArguments a;
  a.table = {cos.data(), sin.data(), positions, pairs, false};
  a.batch = 2;
  a.sequence = sequence;
  a.heads = 1;
  a.head_size = 16;
  for (int64_t* strides : {a.x_strides, a.y_strides}) strides[0] = 64, strides[1] = 16, strides[2] = 16;
  a.x = x.data();
  const auto run = [&](const std::vector<int64_t>& ids, bool one) {
    a.position_ids = ids.data();
    a.one_offset = one;
    return run_everywhere(poisoned(x.size()), [&](Isa isa, float* to) {
      a.y = to;
      return rotary_call(a, isa);
    });
  };
  CHECK(first_difference(run(explicit_ids, false), run(offset, true)) == -1);
}

TEST_CASE("positions outside the table are reported") {
  RotaryArguments a;
  a.table.positions = 10;
  a.batch = 1;
  a.sequence = 3;
  std::vector<int64_t> ids = {0, 9, 10};
  a.position_ids = ids.data();
  CHECK(find_bad_position(a) == 2);
  ids = {0, -1, 3};
  CHECK(find_bad_position(a) == 1);
  a.one_offset = true;
  ids[0] = 7;
  CHECK(find_bad_position(a) == -1);
  ids[0] = 8;
  CHECK(find_bad_position(a) == 0);
  ids[0] = std::numeric_limits<int64_t>::max();
  CHECK(find_bad_position(a) == 0);
}

TEST_SUITE_END();
