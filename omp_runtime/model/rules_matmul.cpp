#include <fmt/format.h>

#include "rules.h"

namespace ompipe::model::rules {
namespace {

// Weights may be of another float type than the activations: they are promoted when they are prepacked.
bool expect_product_types(InferContext& context) {
  return context.expect_dtype(0, {DType::f32, DType::f16}) &&
         context.expect_dtype(1, {DType::f32, DType::f16, DType::bf16});
}

bool expect_depth(InferContext& context, Extent left, Extent right) {
  if (!left.known() || !right.known() || left.value == right.value) return true;
  return context.fail(fmt::format("shapes {} and {} don't multiply: {} against {}",
                                  context.in(0).shape_text(context.symbols()),
                                  context.in(1).shape_text(context.symbols()), left.value, right.value));
}

// Fails unless the input has as many elements as wanted, in whatever shape.
bool expect_elements(InferContext& context, int input, int64_t wanted, const char* what) {
  const Extent count = context.in(input).count();
  if (!count.known() || count.value == wanted) return true;
  return context.fail(fmt::format("{} (input {}) has {} elements in shape {}, expected {}", what, input, count.value,
                                  context.in(input).shape_text(context.symbols()), wanted));
}

// numpy's matmul: batches broadcast, vectors lose their dimension.
bool infer_product(InferContext& context) {
  if (!context.expect_rank(0, 1, kMaxRank) || !context.expect_rank(1, 1, kMaxRank)) return false;
  const TensorFact &a = context.in(0), &b = context.in(1);
  TensorFact& result = context.out(0);
  if (!a.has_shape || !b.has_shape) return true;
  const int a_rank = a.rank, b_rank = b.rank;
  if (!expect_depth(context, a.dims[size_t(a_rank - 1)], b.dims[size_t(b_rank == 1 ? 0 : b_rank - 2)])) return false;
  const int a_batch = std::max(a_rank - 2, 0), b_batch = std::max(b_rank - 2, 0);
  const int batch = std::max(a_batch, b_batch);
  int rank = 0;
  for (int i = 0; i < batch; ++i) {
    const int ai = i - (batch - a_batch), bi = i - (batch - b_batch);
    const Extent left = ai >= 0 ? a.dims[size_t(ai)] : Extent{1}, right = bi >= 0 ? b.dims[size_t(bi)] : Extent{1};
    if (!context.broadcast(left, right, &result.dims[size_t(rank++)])) {
      return context.fail(fmt::format("batches of {} and {} don't broadcast", a.shape_text(context.symbols()),
                                      b.shape_text(context.symbols())));
    }
  }
  if (a_rank > 1) result.dims[size_t(rank++)] = a.dims[size_t(a_rank - 2)];
  if (b_rank > 1) result.dims[size_t(rank++)] = b.dims[size_t(b_rank - 1)];
  result.rank = uint8_t(rank);
  result.has_shape = true;
  return true;
}

}  // namespace

bool mat_mul(InferContext& context) {
  if (!expect_product_types(context)) return false;
  context.out(0).dtype = context.in(0).dtype;
  return infer_product(context);
}

bool mat_mul_integer(InferContext& context) {
  for (const int input : {0, 1}) {
    if (!context.expect_dtype(input, {DType::u8, DType::i8})) return false;
    if (context.has(input + 2) && !context.expect_same_dtype(input, input + 2)) return false;
  }
  if (!context.expect_rank(1, 2, 2)) return false;
  if (context.has(2) && !expect_elements(context, 2, 1, "a_zero_point")) return false;
  const TensorFact& b = context.in(1);
  if (context.has(3) && b.has_shape && b.dims[1].known()) {
    const Extent count = context.in(3).count();
    if (count.known() && count.value != 1 && !expect_elements(context, 3, b.dims[1].value, "b_zero_point"))
      return false;
  }
  context.out(0).dtype = DType::i32;
  return infer_product(context);
}

bool dynamic_quantize_linear(InferContext& context) {
  if (!context.expect_dtype(0, {DType::f32})) return false;
  context.out(0) = context.in(0);
  context.out(0).dtype = DType::u8;
  for (const int output : {1, 2}) {
    TensorFact& scalar = context.out(output);
    scalar.dtype = output == 1 ? DType::f32 : DType::u8;
    scalar.has_shape = true;
    scalar.rank = 0;
  }
  return true;
}

bool gemm(InferContext& context) {
  if (!expect_product_types(context) || !context.expect_rank(0, 2, 2) || !context.expect_rank(1, 2, 2)) return false;
  if (context.has(2) && (!context.expect_same_dtype(0, 2) || !context.expect_rank(2, 0, 2))) return false;
  const TensorFact &a = context.in(0), &b = context.in(1);
  TensorFact& result = context.out(0);
  result.dtype = a.dtype;
  if (!a.has_shape || !b.has_shape) return true;
  const bool trans_a = context.node().int_attribute("transA", 0) != 0;
  const bool trans_b = context.node().int_attribute("transB", 0) != 0;
  if (!expect_depth(context, a.dims[trans_a ? 0 : 1], b.dims[trans_b ? 1 : 0])) return false;
  result.has_shape = true;
  result.rank = 2;
  result.dims[0] = a.dims[trans_a ? 1 : 0];
  result.dims[1] = b.dims[trans_b ? 0 : 1];
  if (!context.has(2)) return true;
  const TensorFact& c = context.in(2);
  for (int i = 0; c.has_shape && i < c.rank; ++i) {
    const Extent have = c.dims[size_t(i)], wanted = result.dims[size_t(2 - c.rank + i)];
    if (have.known() && have.value != 1 && wanted.known() && have.value != wanted.value) {
      return context.fail(fmt::format("C of shape {} doesn't broadcast to {}", c.shape_text(context.symbols()),
                                      result.shape_text(context.symbols())));
    }
  }
  return true;
}

bool mat_mul_nbits(InferContext& context) {
  const Node& node = context.node();
  const int64_t k = node.int_attribute("K", 0), n = node.int_attribute("N", 0);
  const int64_t bits = node.int_attribute("bits", 4), block = node.int_attribute("block_size", 0);
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (k <= 0 || n <= 0 || k > kLargest || n > kLargest)
    return context.fail(fmt::format("attributes K {} and N {}", k, n));
  if (bits != 2 && bits != 4 && bits != 8) {
    return context.fail(fmt::format("bits {} is not supported, expected 2, 4 or 8", bits));
  }
  if (block != 16 && block != 32 && block != 64 && block != 128 && block != 256) {
    return context.fail(fmt::format("block_size {} is not supported, expected 16, 32, 64, 128 or 256", block));
  }
  const int64_t blocks = (k + block - 1) / block;
  if (!context.expect_dtype(0, {DType::f32, DType::f16}) || !context.expect_rank(0, 1, kMaxRank)) return false;
  const DType type = context.in(0).dtype;
  if (!context.expect_dtype(1, {DType::u8}) || !expect_elements(context, 1, n * blocks * block * bits / 8, "B"))
    return false;
  if (!context.expect_dtype(2, {type}) || !expect_elements(context, 2, n * blocks, "scales")) return false;
  if (context.has(3)) {
    if (!context.expect_dtype(3, {DType::u8, type})) return false;
    const int64_t wanted = context.in(3).dtype == DType::u8 ? n * ((blocks * bits + 7) / 8) : n * blocks;
    if (!expect_elements(context, 3, wanted, "zero_points")) return false;
  }
  if (context.has(4)) return context.fail("g_idx is not supported, expected weights in the order of k");
  if (context.has(5) && (!context.expect_dtype(5, {type}) || !expect_elements(context, 5, n, "bias"))) return false;
  const TensorFact& a = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = a.dtype;
  if (!a.has_shape) return true;
  if (!context.expect_dim(0, a.rank - 1, k)) return false;
  result.has_shape = true;
  result.rank = a.rank;
  result.dims = a.dims;
  result.dims[size_t(a.rank - 1)] = {n};
  return true;
}

}  // namespace ompipe::model::rules
