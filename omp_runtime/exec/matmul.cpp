#include "ompipe/kernels/matmul.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "nodes.h"
#include "ompipe/kernels/batched_matmul.h"
#include "ompipe/kernels/elementwise.h"

namespace ompipe::exec {
namespace {

// A matrix of float32 by strides.
struct Matrix {
  const float* data = nullptr;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 1;
};

Matrix matrix_of(const Tensor& tensor, bool transposed) {
  const kernels::Layout& layout = tensor.layout;
  Matrix matrix{tensor.read<float>(), layout.dims[0], layout.dims[1], layout.strides[0], layout.strides[1]};
  if (transposed) {
    std::swap(matrix.rows, matrix.columns);
    std::swap(matrix.row_stride, matrix.column_stride);
  }
  return matrix;
}

// Rows of any element type, `stride` elements apart.
struct DenseRows {
  const std::byte* data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
};

// The first input as dense rows of `columns` elements, copied to the workspace if its strides ask for it.
Result<DenseRows> dense_rows(NodeContext& node, const Tensor& a, bool transposed) {
  Tensor view = a;
  if (transposed) {
    std::swap(view.layout.dims[0], view.layout.dims[1]);
    std::swap(view.layout.strides[0], view.layout.strides[1]);
  }
  const int64_t columns = view.rank() == 0 ? 1 : view.dim(-1);
  const int64_t rows = columns == 0 ? 0 : view.elements() / columns;
  if (view.contiguous()) return DenseRows{view.data, rows, columns, columns};
  if (view.rank() == 2 && view.layout.strides[1] == 1)
    return DenseRows{view.data, rows, columns, view.layout.strides[0]};
  std::byte* copy = node.workspace(view.bytes());
  if (Status status = copy_elements(node, view, *kernels::contiguous_layout(view.shape()), copy); !status)
    return status.error();
  return DenseRows{copy, rows, columns, columns};
}

Status run_packed(NodeContext& node, bool transposed, kernels::MatMulArgs arguments) {
  const auto type = element_type(node.in(0).dtype);
  if (type != kernels::ElementType::f32 && type != kernels::ElementType::f16) {
    return node.failed(fmt::format("input 0 is {}, expected float32 or float16", model::dtype_name(node.in(0).dtype)));
  }
  const auto rows = dense_rows(node, node.in(0), transposed);
  if (!rows) return rows.error();
  const DenseRows& a = *rows;
  arguments.type = *type;
  arguments.packed = node.packed(1);
  const kernels::PackedLayout layout = node.layout(1);
  arguments.layout = &layout;
  if (a.columns != layout.spec.k) return node.failed("its first input has not K columns");
  arguments.m = a.rows;
  arguments.a = a.data;
  arguments.lda = a.stride;
  arguments.out = node.out(0).data;
  arguments.ldc = layout.spec.n;
  arguments.shared_scratch = node.workspace(uint64_t(kernels::shared_scratch_bytes(layout, a.rows, *type)));
  node.run(kernels::matmul_call(arguments));
  return ok_status();
}

// What is added to the product, if the node has it.
std::optional<Error> set_c(const NodeContext& node, int input, kernels::MatMulArgs& arguments) {
  if (!node.has(input)) return {};
  const model::DType type = node.in(input).dtype, wanted = node.in(0).dtype;
  if (type != wanted) {
    return node.failed(
        fmt::format("input {} is {}, expected {}", input, model::dtype_name(type), model::dtype_name(wanted)));
  }
  arguments.c = node.in(input).data;
  return {};
}

// A product of two operands that nobody packed. `batch` has operands c, a, b.
void run_unpacked(NodeContext& node, const Matrix& a, const Matrix& b, float* c, const kernels::StridedLoop& batch) {
  kernels::BatchedMatMulArguments arguments;
  arguments.a = a.data;
  arguments.b = b.data;
  arguments.c = c;
  arguments.m = a.rows;
  arguments.n = b.columns;
  arguments.k = a.columns;
  arguments.a_row_stride = a.row_stride;
  arguments.a_k_stride = a.column_stride;
  arguments.b_k_stride = b.row_stride;
  arguments.b_column_stride = b.column_stride;
  arguments.c_row_stride = b.columns;
  arguments.batch = batch;
  node.run(kernels::batched_matmul_call(arguments, node.isa()));
}

// Appends a dimension of 1, as numpy's matmul treats a vector on the right, or prepends one, on the left.
kernels::Layout at_least_matrix(const kernels::Layout& layout, bool left) {
  if (layout.rank != 1) return layout;
  kernels::Layout matrix;
  matrix.rank = 2;
  matrix.dims = left ? kernels::Extents{1, layout.dims[0]} : kernels::Extents{layout.dims[0], 1};
  matrix.strides = left ? kernels::Extents{0, layout.strides[0]} : kernels::Extents{layout.strides[0], 0};
  return matrix;
}

Matrix last_two(const Tensor& tensor, const kernels::Layout& layout) {
  const size_t row = size_t(layout.rank - 2), column = size_t(layout.rank - 1);
  return {tensor.read<float>(), layout.dims[row], layout.dims[column], layout.strides[row], layout.strides[column]};
}

kernels::Layout without_last_two(kernels::Layout layout) {
  layout.rank -= 2;
  return layout;
}

// The output's batch dimensions with the strides of dense matrices of rows x columns.
kernels::Layout batch_layout(const kernels::Layout& a, const kernels::Layout& b, const Tensor& out, int64_t matrix) {
  kernels::Layout batch;
  batch.rank = std::max(a.rank, b.rank);
  int64_t stride = matrix;
  for (int i = batch.rank - 1; i >= 0; --i) {
    batch.dims[size_t(i)] = out.layout.dims[size_t(i)];
    batch.strides[size_t(i)] = stride;
    stride *= batch.dims[size_t(i)];
  }
  return batch;
}

}  // namespace

Status run_matmul_nbits(NodeContext& node) {
  if (!node.is_packed(1)) return node.failed("B isn't constant");
  if (node.has(4)) return node.failed("g_idx isn't supported");
  kernels::MatMulArgs arguments;
  if (auto error = set_c(node, 5, arguments)) return *error;
  return run_packed(node, false, arguments);
}

Status run_matmul(NodeContext& node) {
  if (node.is_packed(1)) return run_packed(node, false, {});
  if (auto error = expect_float(node, 0)) return *error;
  if (auto error = expect_float(node, 1)) return *error;
  const kernels::Layout left = at_least_matrix(node.in(0).layout, true);
  const kernels::Layout right = at_least_matrix(node.in(1).layout, false);
  const Matrix a = last_two(node.in(0), left), b = last_two(node.in(1), right);
  const std::array<kernels::Layout, 2> batches{without_last_two(left), without_last_two(right)};
  const auto loop = kernels::make_loop(batch_layout(batches[0], batches[1], node.out(0), a.rows * b.columns), batches);
  if (!loop) return node.failed("batch dimensions don't broadcast");
  run_unpacked(node, a, b, node.out(0).write<float>(), *loop);
  return ok_status();
}

namespace {

// out[i] = x[i] op y[i], broadcast to the output; out may be x.
Status combine(NodeContext& node, kernels::BinaryOp op, const Tensor& x, const Tensor& y, const Tensor& out) {
  const std::array<kernels::Layout, 2> inputs{x.layout, y.layout};
  const auto loop = kernels::make_loop(out.layout, inputs);
  if (!loop) return node.failed("C doesn't broadcast to the output");
  const kernels::ElementwiseArguments arguments{*loop, kernels::ElementType::f32, out.data, {x.data, y.data}};
  node.run(kernels::binary_call(op, arguments, node.isa()));
  return ok_status();
}

// out = alpha * out + beta * c for the product that is in `out`. The packed kernel rounds beta * c + ... once, this
// twice, unless beta is 1.
Status finish_gemm(NodeContext& node, float alpha, float beta) {
  using kernels::BinaryOp;
  const Tensor& out = node.out(0);
  if (alpha != 1) {
    const Tensor factor = make_constant(model::DType::f32, {}, &alpha);
    if (Status status = combine(node, BinaryOp::mul, out, factor, out); !status) return status;
  }
  if (!node.has(2) || beta == 0) return ok_status();
  if (auto error = expect_float(node, 2)) return *error;
  Tensor c = node.in(2);
  if (beta != 1) {
    const Tensor factor = make_constant(model::DType::f32, {}, &beta);
    const Tensor scaled = make_tensor(model::DType::f32, c.shape(), node.workspace(c.bytes()));
    if (Status status = combine(node, BinaryOp::mul, c, factor, scaled); !status) return status;
    c = scaled;
  }
  return combine(node, BinaryOp::add, out, c, out);
}

// Gemm's C by the strides with which it broadcasts to the output.
Status set_gemm_c(const NodeContext& node, kernels::MatMulArgs& arguments) {
  if (!node.has(2) || arguments.beta == 0) return ok_status();
  if (auto error = set_c(node, 2, arguments)) return *error;
  const std::array<kernels::Layout, 1> inputs{node.in(2).layout};
  const kernels::Layout& layout = node.in(2).layout;
  if (!kernels::make_loop(node.out(0).layout, inputs)) return node.failed("C doesn't broadcast to the output");
  const auto stride = [&](int from_last) {
    const int axis = layout.rank - from_last;
    return axis < 0 || layout.dims[size_t(axis)] == 1 ? 0 : layout.strides[size_t(axis)];
  };
  arguments.c_row_stride = stride(2);
  arguments.c_column_stride = stride(1);
  return ok_status();
}

}  // namespace

Status run_gemm(NodeContext& node) {
  const bool trans_a = node.node().int_attribute("transA", 0) != 0,
             trans_b = node.node().int_attribute("transB", 0) != 0;
  const float alpha = node.node().float_attribute("alpha", 1), beta = node.node().float_attribute("beta", 1);
  if (node.is_packed(1)) {
    kernels::MatMulArgs arguments;
    arguments.alpha = alpha;
    arguments.beta = beta;
    if (Status status = set_gemm_c(node, arguments); !status) return status;
    return run_packed(node, trans_a, arguments);
  }
  if (auto error = expect_float(node, 0)) return *error;
  if (auto error = expect_float(node, 1)) return *error;
  const Matrix a = matrix_of(node.in(0), trans_a), b = matrix_of(node.in(1), trans_b);
  const std::array<kernels::Layout, 2> no_batch;
  run_unpacked(node, a, b, node.out(0).write<float>(), *kernels::make_loop({}, no_batch));
  return finish_gemm(node, alpha, beta);
}

}  // namespace ompipe::exec
