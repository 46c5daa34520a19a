#include "ompipe/model/ops.h"

#include <algorithm>

#include "rules.h"

namespace ompipe::model {
namespace {

constexpr int64_t kLast = INT64_MAX;  // every later version
constexpr std::string_view kOnnx = "", kMicrosoft = "com.microsoft";

using enum AttributeKind;

constexpr AttributeSpec kAxis[] = {{"axis"}};
constexpr AttributeSpec kAxes[] = {{"axes", integers}};
constexpr AttributeSpec kCast[] = {{"to"}};
constexpr AttributeSpec kCast19[] = {{"to"}, {"saturate"}};  // of casts to float8, which isn't a type here
constexpr AttributeSpec kCast24[] = {{"to"}, {"saturate"}, {"round_mode", text}};
constexpr AttributeSpec kConstantOfShape[] = {{"value", tensor}};
constexpr AttributeSpec kDropout7[] = {{"ratio", real}};  // without effect outside training, as is the seed
constexpr AttributeSpec kDropout[] = {{"seed"}};
constexpr AttributeSpec kGelu[] = {{"approximate", text, "none tanh"}};
constexpr AttributeSpec kGemm[] = {{"alpha", real}, {"beta", real}, {"transA"}, {"transB"}};
constexpr AttributeSpec kIf[] = {{"then_branch", graph}, {"else_branch", graph}};
constexpr AttributeSpec kLoop[] = {{"body", graph}};
constexpr AttributeSpec kNorm[] = {{"axis"}, {"epsilon", real}, {"stash_type", integer, "1"}};
constexpr AttributeSpec kReduceAxes[] = {{"axes", integers}, {"keepdims"}};
constexpr AttributeSpec kReduce[] = {{"keepdims"}, {"noop_with_empty_axes"}};
constexpr AttributeSpec kReshape14[] = {{"allowzero"}};
constexpr AttributeSpec kShape15[] = {{"start"}, {"end"}};
constexpr AttributeSpec kSlice1[] = {{"axes", integers}, {"starts", integers}, {"ends", integers}};
constexpr AttributeSpec kSplit2[] = {{"axis"}, {"split", integers}};
constexpr AttributeSpec kSplit18[] = {{"axis"}, {"num_outputs"}};
constexpr AttributeSpec kTranspose[] = {{"perm", integers}};
constexpr AttributeSpec kGatherBlockQuantized[] = {{"bits"}, {"block_size"}, {"gather_axis"}, {"quantize_axis"}};
constexpr AttributeSpec kGroupQueryAttention[] = {{"num_heads"},
                                                  {"kv_num_heads"},
                                                  {"do_rotary"},
                                                  {"rotary_interleaved"},
                                                  {"local_window_size"},
                                                  {"scale", real},
                                                  {"softcap", real},
                                                  {"causal", integer, "1"},
                                                  {"sliding_window_cache", integer, "0"},
                                                  {"smooth_softmax", integer, "-1 0"},
                                                  {"qk_output", integer, "0"},
                                                  {"k_quant_type", text, "NONE"},
                                                  {"v_quant_type", text, "NONE"},
                                                  {"kv_cache_bit_width"},      // of quantised caches
                                                  {"qk_norm_epsilon", real}};  // of inputs that are refused
constexpr AttributeSpec kMatMulNBits[] = {
    {"K"}, {"N"}, {"bits"}, {"block_size"}, {"accuracy_level"}, {"weight_prepacked", integer, "0"}};
constexpr AttributeSpec kSkipNorm[] = {{"epsilon", real}};

// Domain, name, first and last version, kernel, least and most inputs, most outputs, rule, attributes.
constexpr OpSpec kOps[] = {
    {kOnnx, "Add", 7, kLast, OpKind::add, 2, 2, 1, rules::binary_number},
    {kOnnx, "Cast", 6, 18, OpKind::cast, 1, 1, 1, rules::cast, kCast},
    {kOnnx, "Cast", 19, 23, OpKind::cast, 1, 1, 1, rules::cast, kCast19},
    {kOnnx, "Cast", 24, kLast, OpKind::cast, 1, 1, 1, rules::cast, kCast24},
    {kOnnx, "Concat", 4, kLast, OpKind::concat, 1, -1, 1, rules::concat, kAxis},
    {kOnnx, "ConstantOfShape", 9, kLast, OpKind::constant_of_shape, 1, 1, 1, rules::constant_of_shape,
     kConstantOfShape},
    {kOnnx, "Div", 7, kLast, OpKind::div, 2, 2, 1, rules::binary_number},
    {kOnnx, "Dropout", 7, 11, OpKind::identity, 1, 1, 2, rules::same, kDropout7},
    {kOnnx, "Dropout", 12, kLast, OpKind::identity, 1, 3, 2, rules::same, kDropout},
    {kOnnx, "DynamicQuantizeLinear", 11, kLast, OpKind::dynamic_quantize_linear, 1, 1, 3,
     rules::dynamic_quantize_linear},
    {kOnnx, "Equal", 7, kLast, OpKind::equal, 2, 2, 1, rules::equal},
    {kOnnx, "Erf", 9, kLast, OpKind::erf, 1, 1, 1, rules::unary_float},
    {kOnnx, "Expand", 8, kLast, OpKind::expand, 2, 2, 1, rules::expand},
    {kOnnx, "Gather", 1, kLast, OpKind::gather, 2, 2, 1, rules::gather, kAxis},
    {kOnnx, "Gelu", 20, kLast, OpKind::gelu, 1, 1, 1, rules::unary_float, kGelu},
    {kOnnx, "Gemm", 7, kLast, OpKind::gemm, 2, 3, 1, rules::gemm, kGemm},
    {kOnnx, "Identity", 1, kLast, OpKind::identity, 1, 1, 1, rules::same},
    {kOnnx, "If", 1, kLast, OpKind::if_else, 1, 1, -1, nullptr, kIf},
    {kOnnx, "LayerNormalization", 17, kLast, OpKind::layer_norm, 2, 3, 3, rules::layer_norm, kNorm},
    {kOnnx, "Loop", 1, kLast, OpKind::loop, 0, -1, -1, nullptr, kLoop},
    {kOnnx, "MatMul", 1, kLast, OpKind::mat_mul, 2, 2, 1, rules::mat_mul},
    {kOnnx, "MatMulInteger", 10, kLast, OpKind::mat_mul_integer, 2, 4, 1, rules::mat_mul_integer},
    {kOnnx, "Max", 8, kLast, OpKind::max, 1, -1, 1, rules::binary_number},
    {kOnnx, "Min", 8, kLast, OpKind::min, 1, -1, 1, rules::binary_number},
    {kOnnx, "Mul", 7, kLast, OpKind::mul, 2, 2, 1, rules::binary_number},
    {kOnnx, "Neg", 6, kLast, OpKind::neg, 1, 1, 1, rules::unary_number},
    {kOnnx, "Pow", 7, kLast, OpKind::pow, 2, 2, 1, rules::power},
    {kOnnx, "Range", 11, kLast, OpKind::range, 3, 3, 1, rules::range},
    {kOnnx, "ReduceMean", 1, 17, OpKind::reduce_mean, 1, 1, 1, rules::reduce, kReduceAxes},
    {kOnnx, "ReduceMean", 18, kLast, OpKind::reduce_mean, 1, 2, 1, rules::reduce, kReduce},
    {kOnnx, "ReduceSum", 1, 12, OpKind::reduce_sum, 1, 1, 1, rules::reduce, kReduceAxes},
    {kOnnx, "ReduceSum", 13, kLast, OpKind::reduce_sum, 1, 2, 1, rules::reduce, kReduce},
    {kOnnx, "Relu", 6, kLast, OpKind::relu, 1, 1, 1, rules::unary_number},
    {kOnnx, "Reshape", 5, 13, OpKind::reshape, 2, 2, 1, rules::reshape},
    {kOnnx, "Reshape", 14, kLast, OpKind::reshape, 2, 2, 1, rules::reshape, kReshape14},
    {kOnnx, "Shape", 1, 14, OpKind::shape, 1, 1, 1, rules::shape},
    {kOnnx, "Shape", 15, kLast, OpKind::shape, 1, 1, 1, rules::shape, kShape15},
    {kOnnx, "Sigmoid", 6, kLast, OpKind::sigmoid, 1, 1, 1, rules::unary_float},
    {kOnnx, "SimplifiedLayerNormalization", 1, kLast, OpKind::simplified_layer_norm, 2, 2, 2,
     rules::simplified_layer_norm, kNorm},
    {kOnnx, "Slice", 1, 9, OpKind::slice, 1, 1, 1, rules::slice, kSlice1},
    {kOnnx, "Slice", 10, kLast, OpKind::slice, 3, 5, 1, rules::slice},
    {kOnnx, "Softmax", 1, kLast, OpKind::softmax, 1, 1, 1, rules::softmax, kAxis},
    {kOnnx, "Split", 2, 12, OpKind::split, 1, 1, -1, rules::split, kSplit2},
    {kOnnx, "Split", 13, 17, OpKind::split, 1, 2, -1, rules::split, kAxis},
    {kOnnx, "Split", 18, kLast, OpKind::split, 1, 2, -1, rules::split, kSplit18},
    {kOnnx, "Sqrt", 6, kLast, OpKind::sqrt, 1, 1, 1, rules::unary_float},
    {kOnnx, "Squeeze", 1, 12, OpKind::squeeze, 1, 1, 1, rules::squeeze, kAxes},
    {kOnnx, "Squeeze", 13, kLast, OpKind::squeeze, 1, 2, 1, rules::squeeze},
    {kOnnx, "Sub", 7, kLast, OpKind::sub, 2, 2, 1, rules::binary_number},
    {kOnnx, "Tanh", 6, kLast, OpKind::tanh, 1, 1, 1, rules::unary_float},
    {kOnnx, "Transpose", 1, kLast, OpKind::transpose, 1, 1, 1, rules::transpose, kTranspose},
    {kOnnx, "Unsqueeze", 1, 12, OpKind::unsqueeze, 1, 1, 1, rules::unsqueeze, kAxes},
    {kOnnx, "Unsqueeze", 13, kLast, OpKind::unsqueeze, 2, 2, 1, rules::unsqueeze},
    {kOnnx, "Where", 9, kLast, OpKind::where, 3, 3, 1, rules::where},
    {kMicrosoft, "GatherBlockQuantized", 1, 1, OpKind::gather_block_quantized, 3, 4, 1, rules::gather_block_quantized,
     kGatherBlockQuantized},
    {kMicrosoft, "Gelu", 1, 1, OpKind::gelu, 1, 1, 1, rules::unary_float},
    {kMicrosoft, "GroupQueryAttention", 1, 1, OpKind::group_query_attention, 1, 12, 3, rules::group_query_attention,
     kGroupQueryAttention},
    {kMicrosoft, "MatMulNBits", 1, 1, OpKind::mat_mul_nbits, 3, 6, 1, rules::mat_mul_nbits, kMatMulNBits},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, 1, OpKind::skip_simplified_layer_norm, 3, 4, 4,
     rules::skip_simplified_layer_norm, kSkipNorm},
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
