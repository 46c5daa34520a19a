#include "ompipe/model/ops.h"

#include <algorithm>

#include "rules.h"

namespace ompipe::model {
namespace {

constexpr int64_t kLast = INT64_MAX;  // every later version
constexpr std::string_view kOnnx = "", kMicrosoft = "com.microsoft";

// Domain, name, first and last version, kernel, least and most inputs, most outputs, rule.
constexpr OpSpec kOps[] = {
    {kOnnx, "Add", 7, kLast, OpKind::add, 2, 2, 1, rules::binary_number},
    {kOnnx, "Cast", 6, kLast, OpKind::cast, 1, 1, 1, rules::cast},
    {kOnnx, "Concat", 4, kLast, OpKind::concat, 1, -1, 1, rules::concat},
    {kOnnx, "ConstantOfShape", 9, kLast, OpKind::constant_of_shape, 1, 1, 1, rules::constant_of_shape},
    {kOnnx, "Div", 7, kLast, OpKind::div, 2, 2, 1, rules::binary_number},
    {kOnnx, "Dropout", 7, kLast, OpKind::identity, 1, 3, 2, rules::same},
    {kOnnx, "Equal", 7, kLast, OpKind::equal, 2, 2, 1, rules::equal},
    {kOnnx, "Erf", 9, kLast, OpKind::erf, 1, 1, 1, rules::unary_float},
    {kOnnx, "Expand", 8, kLast, OpKind::expand, 2, 2, 1, rules::expand},
    {kOnnx, "Gather", 1, kLast, OpKind::gather, 2, 2, 1, rules::gather},
    {kOnnx, "Gelu", 20, kLast, OpKind::gelu, 1, 1, 1, rules::unary_float},
    {kOnnx, "Gemm", 7, kLast, OpKind::gemm, 2, 3, 1, rules::gemm},
    {kOnnx, "Identity", 1, kLast, OpKind::identity, 1, 1, 1, rules::same},
    {kOnnx, "LayerNormalization", 17, kLast, OpKind::layer_norm, 2, 3, 3, rules::layer_norm},
    {kOnnx, "MatMul", 1, kLast, OpKind::mat_mul, 2, 2, 1, rules::mat_mul},
    {kOnnx, "Max", 8, kLast, OpKind::max, 1, -1, 1, rules::binary_number},
    {kOnnx, "Min", 8, kLast, OpKind::min, 1, -1, 1, rules::binary_number},
    {kOnnx, "Mul", 7, kLast, OpKind::mul, 2, 2, 1, rules::binary_number},
    {kOnnx, "Neg", 6, kLast, OpKind::neg, 1, 1, 1, rules::unary_number},
    {kOnnx, "Pow", 7, kLast, OpKind::pow, 2, 2, 1, rules::power},
    {kOnnx, "Range", 11, kLast, OpKind::range, 3, 3, 1, rules::range},
    {kOnnx, "ReduceMean", 1, kLast, OpKind::reduce_mean, 1, 2, 1, rules::reduce},
    {kOnnx, "ReduceSum", 1, kLast, OpKind::reduce_sum, 1, 2, 1, rules::reduce},
    {kOnnx, "Relu", 6, kLast, OpKind::relu, 1, 1, 1, rules::unary_number},
    {kOnnx, "Reshape", 5, kLast, OpKind::reshape, 2, 2, 1, rules::reshape},
    {kOnnx, "Shape", 1, kLast, OpKind::shape, 1, 1, 1, rules::shape},
    {kOnnx, "Sigmoid", 6, kLast, OpKind::sigmoid, 1, 1, 1, rules::unary_float},
    {kOnnx, "SimplifiedLayerNormalization", 1, kLast, OpKind::simplified_layer_norm, 2, 2, 2,
     rules::simplified_layer_norm},
    {kOnnx, "Slice", 1, kLast, OpKind::slice, 1, 5, 1, rules::slice},
    {kOnnx, "Softmax", 1, kLast, OpKind::softmax, 1, 1, 1, rules::softmax},
    {kOnnx, "Split", 2, kLast, OpKind::split, 1, 2, -1, rules::split},
    {kOnnx, "Sqrt", 6, kLast, OpKind::sqrt, 1, 1, 1, rules::unary_float},
    {kOnnx, "Squeeze", 1, kLast, OpKind::squeeze, 1, 2, 1, rules::squeeze},
    {kOnnx, "Sub", 7, kLast, OpKind::sub, 2, 2, 1, rules::binary_number},
    {kOnnx, "Tanh", 6, kLast, OpKind::tanh, 1, 1, 1, rules::unary_float},
    {kOnnx, "Transpose", 1, kLast, OpKind::transpose, 1, 1, 1, rules::transpose},
    {kOnnx, "Unsqueeze", 1, kLast, OpKind::unsqueeze, 1, 2, 1, rules::unsqueeze},
    {kOnnx, "Where", 9, kLast, OpKind::where, 3, 3, 1, rules::where},
    {kMicrosoft, "GatherBlockQuantized", 1, 1, OpKind::gather_block_quantized, 3, 4, 1, rules::gather_block_quantized},
    {kMicrosoft, "Gelu", 1, 1, OpKind::gelu, 1, 1, 1, rules::unary_float},
    {kMicrosoft, "GroupQueryAttention", 1, 1, OpKind::group_query_attention, 1, 12, 3, rules::group_query_attention},
    {kMicrosoft, "MatMulNBits", 1, 1, OpKind::mat_mul_nbits, 3, 6, 1, rules::mat_mul_nbits},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, 1, OpKind::skip_simplified_layer_norm, 3, 4, 4,
     rules::skip_simplified_layer_norm},
};

}  // namespace

const OpSpec* find_op(std::string_view domain, std::string_view name, int64_t version) {
  const OpSpec* found = std::find_if(std::begin(kOps), std::end(kOps), [&](const OpSpec& op) {
    return op.name == name && op.domain == domain && version >= op.min_version && version <= op.max_version;
  });
  return found == std::end(kOps) ? nullptr : found;
}

std::span<const OpSpec> all_ops() { return kOps; }

}  // namespace ompipe::model
