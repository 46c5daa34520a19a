#include "ompipe/kernels/batched_matmul.h"

#include <doctest/doctest.h>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("batched_matmul");

namespace {

struct Shape {
  int64_t batch, m, n, k;
};

// The oracle is the stated order itself: one chain of fmas in rising k. Bits must agree.
void check(Shape shape, bool transposed_a, bool transposed_b, bool broadcast_b) {
  const auto [batch, m, n, k] = shape;
  const int64_t b_batches = broadcast_b ? 1 : batch;
  const std::vector<float> a = random_floats(size_t(batch * m * k + 1), 1);
  const std::vector<float> b = random_floats(size_t(b_batches * k * n + 1), 2);
  const Layout dims = layout({batch});
  Layout inputs[] = {layout({batch}), layout({b_batches})}, output = dims;
  inputs[0].strides[0] = m * k;
  inputs[1].strides[0] = k * n;
  output.strides[0] = m * n;
  BatchedMatMulArguments args;
  args.a = a.data() + 1;
  args.b = b.data() + 1;
  args.m = m;
  args.n = n;
  args.k = k;
  args.a_row_stride = transposed_a ? 1 : k;
  args.a_k_stride = transposed_a ? m : 1;
  args.b_k_stride = transposed_b ? 1 : n;
  args.b_column_stride = transposed_b ? k : 1;
  args.c_row_stride = n;
  args.batch = *make_loop(output, inputs);
  const std::vector<float> c = run_everywhere(poisoned(size_t(batch * m * n)), [&](Isa isa, float* to) {
    args.c = to;
    return batched_matmul_call(args, isa);
  });
  for (int64_t i = 0; i < batch * m * n; ++i) {
    const int64_t column = i % n, row = i / n % m, at = i / n / m;
    float sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      sum = std::fma(args.a[at * m * k + row * args.a_row_stride + j * args.a_k_stride],
                     args.b[(broadcast_b ? 0 : at * k * n) + j * args.b_k_stride + column * args.b_column_stride], sum);
    }
    REQUIRE(std::bit_cast<uint32_t>(c[size_t(i)]) == std::bit_cast<uint32_t>(sum));
  }
}

}  // namespace

TEST_CASE("every product is one chain of fmas, at sizes around the tiles, with views") {
  const Shape shapes[] = {{1, 1, 1, 1},    {2, 6, 16, 8},   {3, 7, 17, 9},    {1, 97, 65, 3},
                          {2, 5, 15, 300}, {1, 13, 80, 32}, {2, 100, 33, 64}, {1, 3, 16, 257}};
  for (const Shape& shape : shapes) {
    for (int form = 0; form < 8; ++form) check(shape, form & 1, form & 2, form & 4);
  }
}

TEST_CASE("nothing to multiply") {
  check({2, 3, 5, 0}, false, false, false);
  check({2, 0, 5, 4}, false, false, false);
  check({2, 3, 0, 4}, false, true, false);
  check({0, 3, 5, 4}, false, false, false);
}

TEST_CASE("NaN and infinity reach exactly their row") {
  std::vector<float> a = random_floats(4 * 3, 1);
  a[3] = kNaN;
  a[6] = kInfinity;
  const std::vector<float> b(3 * 20, 1.0f);
  BatchedMatMulArguments args;
  args.a = a.data();
  args.b = b.data();
  args.m = 4;
  args.n = 20;
  args.k = args.a_row_stride = 3;
  args.b_k_stride = args.c_row_stride = 20;
  const Layout one = layout({}), inputs[] = {one, one};
  args.batch = *make_loop(one, inputs);
  const std::vector<float> c = run_everywhere(poisoned(80), [&](Isa isa, float* to) {
    args.c = to;
    return batched_matmul_call(args, isa);
  });
  for (int i = 0; i < 80; ++i) {
    CHECK(std::isnan(c[size_t(i)]) == (i / 20 == 1));
    CHECK(std::isinf(c[size_t(i)]) == (i / 20 == 2));
  }
}

TEST_SUITE_END();
