#include "ompipe/kernels/strided.h"

#include <doctest/doctest.h>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("strided");

TEST_CASE("broadcasting follows numpy's rules") {
  const Layout a = layout({3, 1, 5}), b = layout({4, 1}), bad = layout({2, 5});
  const Layout good[] = {a, b};
  const std::optional<Layout> result = broadcast_layout(good);
  REQUIRE(result.has_value());
  CHECK(result->rank == 3);
  CHECK(result->dims[0] == 3);
  CHECK(result->dims[1] == 4);
  CHECK(result->dims[2] == 5);
  CHECK(result->is_contiguous());
  const Layout wrong[] = {layout({3, 4, 5}), bad};
  CHECK_FALSE(broadcast_layout(wrong).has_value());
  const Layout with_empty[] = {layout({0, 4}), layout({1})};
  REQUIRE(broadcast_layout(with_empty).has_value());
  CHECK(broadcast_layout(with_empty)->element_count() == 0);
  const Layout empty_against_two[] = {layout({0}), layout({2})};
  CHECK_FALSE(broadcast_layout(empty_against_two).has_value());
}

TEST_CASE("contiguous operands become one run, a broadcast bias two") {
  const Layout shape = layout({2, 3, 4, 5});
  const Layout same[] = {shape, shape};
  CHECK(make_loop(shape, same)->rank == 1);
  CHECK(make_loop(shape, same)->dims[0] == 120);
  const Layout with_bias[] = {shape, layout({5})};
  const std::optional<StridedLoop> loop = make_loop(shape, with_bias);
  REQUIRE(loop.has_value());
  CHECK(loop->rank == 2);
  CHECK(loop->dims[0] == 24);
  CHECK(loop->strides[2][0] == 0);
  CHECK(loop->strides[2][1] == 1);
}

TEST_CASE("scalars, ones and what does not fit") {
  const Layout scalar = layout({}), ones = layout({1, 1});
  CHECK(make_loop(ones, {&scalar, 1})->element_count == 1);
  CHECK(make_loop(scalar, {&scalar, 1})->rank == 1);
  const Layout wide = layout({3});
  CHECK_FALSE(make_loop(scalar, {&wide, 1}).has_value());
  CHECK_FALSE(make_loop(layout({2}), {&wide, 1}).has_value());
  const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  CHECK_FALSE(contiguous_layout(nine).has_value());
  const Layout four[] = {scalar, scalar, scalar, scalar};
  CHECK_FALSE(make_loop(scalar, four).has_value());
}

TEST_SUITE_END();
