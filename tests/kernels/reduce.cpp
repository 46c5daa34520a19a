#include "ompipe/kernels/reduce.h"

#include <doctest/doctest.h>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("reduce");

namespace {

// Sums in double of x [dims] over the axes in `reduced`, in the order of the kept elements.
std::vector<double> naive_sums(const std::vector<float>& x, const Layout& shape, const std::vector<bool>& reduced,
                               std::vector<double>& magnitudes) {
  int64_t kept_count = 1;
  for (int i = 0; i < shape.rank; ++i) kept_count *= reduced[size_t(i)] ? 1 : shape.dims[i];
  std::vector<double> sums(static_cast<size_t>(kept_count));
  magnitudes.assign(size_t(kept_count), 0);
  for (int64_t index = 0; index < shape.element_count(); ++index) {
    int64_t rest = index, at = 0, scale = 1;
    for (int i = shape.rank - 1; i >= 0; --i) {
      if (!reduced[size_t(i)]) {
        at += rest % shape.dims[i] * scale;
        scale *= shape.dims[i];
      }
      rest /= shape.dims[i];
    }
    sums[size_t(at)] += x[size_t(index)];
    magnitudes[size_t(at)] += std::abs(x[size_t(index)]);
  }
  return sums;
}

}  // namespace

TEST_CASE("sum and mean over every set of axes equal double") {
  for (const Layout& shape : {layout({3, 4, 5, 33}), layout({2, 1, 40, 7}), layout({70, 3, 2, 100})}) {
    const std::vector<float> x = random_floats(size_t(shape.element_count()), 1);
    for (int set = 1; set < 16; ++set) {
      std::vector<int64_t> axes;
      std::vector<bool> reduced(4);
      int64_t terms = 1;
      for (int i = 0; i < 4; ++i) {
        if ((set >> i & 1) == 0) continue;
        axes.push_back(i % 2 == 0 ? i : i - 4);
        reduced[size_t(i)] = true;
        terms *= shape.dims[i];
      }
      std::vector<double> magnitudes;
      const std::vector<double> want = naive_sums(x, shape, reduced, magnitudes);
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
        ReduceArguments a = *make_reduce(op, ElementType::f32, shape, axes);
        a.x = x.data();
        const std::vector<float> y = run_everywhere(poisoned(want.size()), [&](Isa isa, float* to) {
          a.y = to;
          return reduce_call(a, isa);
        });
        const double divisor = op == ReduceOp::mean ? double(terms) : 1;
        for (size_t i = 0; i < want.size(); ++i) {
          REQUIRE(std::abs(y[i] - want[i] / divisor) <= (double(terms) + 1) * kEpsilon * magnitudes[i] / divisor);
        }
      }
    }
  }
}

TEST_CASE("integers wrap, their mean truncates") {
  const Layout shape = layout({2, 3});
  const std::vector<int64_t> x = {1, 2, 4, -1, -2, -4}, axes = {1};
  std::vector<int64_t> y(2);
  ReduceArguments a = *make_reduce(ReduceOp::sum, ElementType::i64, shape, axes);
  a.x = x.data();
  a.y = y.data();
  run_tiles(reduce_call(a, Isa::scalar));
  CHECK(y == std::vector<int64_t>{7, -7});
  a.op = ReduceOp::mean;
  run_tiles(reduce_call(a, Isa::scalar));
  CHECK(y == std::vector<int64_t>{2, -2});
  const std::vector<int32_t> most = {std::numeric_limits<int32_t>::max(), 1};
  const Layout pair = layout({2});
  int32_t sum = 0;
  ReduceArguments wrap = *make_reduce(ReduceOp::sum, ElementType::i32, pair, {});
  wrap.x = most.data();
  wrap.y = &sum;
  run_tiles(reduce_call(wrap, Isa::scalar));
  CHECK(sum == std::numeric_limits<int32_t>::min());
}

TEST_CASE("nothing to sum, no outputs, bad axes") {
  const std::vector<int64_t> last = {1}, outside = {2}, twice = {1, -1};
  const Layout empty_rows = layout({3, 0});
  for (const Isa isa : {Isa::scalar, best_isa()}) {
    std::vector<float> y(3, 7.0f);
    ReduceArguments a = *make_reduce(ReduceOp::sum, ElementType::f32, empty_rows, last);
    a.y = y.data();
    run_tiles(reduce_call(a, isa));
    CHECK(y == std::vector<float>(3, 0.0f));
    a.op = ReduceOp::mean;
    run_tiles(reduce_call(a, isa));
    CHECK(std::isnan(y[1]));
  }
  CHECK(reduce_call(*make_reduce(ReduceOp::sum, ElementType::f32, layout({0, 3}), last), Isa::scalar).tile_counts[0] ==
        0);
  CHECK_FALSE(make_reduce(ReduceOp::sum, ElementType::f32, empty_rows, outside).has_value());
  CHECK_FALSE(make_reduce(ReduceOp::sum, ElementType::f32, empty_rows, twice).has_value());
}

TEST_SUITE_END();
