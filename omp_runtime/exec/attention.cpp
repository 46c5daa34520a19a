#include "ompipe/kernels/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "nodes.h"

namespace ompipe::exec {
namespace {

enum Input : int { kQuery, kKey, kValue, kPastKey, kPastValue, kSeqlens, kTotal, kCos, kSin };

kernels::CacheView cache_view(const Tensor& present) {
  return {present.data, present.layout.strides[0], present.layout.strides[1], present.layout.strides[2]};
}

// A past that was fed as a tensor is the beginning of the present; a bound cache has both in the same place.
Status copy_past(NodeContext& node, int past, int present) {
  if (!node.has(past)) return ok_status();
  const Tensor& from = node.in(past);
  const Tensor& to = node.out(present);
  if (from.elements() == 0 || (!node.measuring() && from.data == to.data)) return ok_status();
  if (from.dim(2) > to.dim(2)) {
    return node.failed(fmt::format("past of length {} in a total of {}", from.dim(2), to.dim(2)));
  }
  kernels::Layout place = to.layout;
  place.dims = from.layout.dims;
  return copy_elements(node, from, place, to.data);
}

std::optional<Error> expect_type(const NodeContext& node, int input, model::DType wanted) {
  if (!node.has(input) || node.in(input).dtype == wanted) return {};
  return node.failed(fmt::format("input {} is {}, expected {}", input, model::dtype_name(node.in(input).dtype),
                                 model::dtype_name(wanted)));
}

std::optional<Error> check_types(const NodeContext& node) {
  const model::DType type = node.in(kQuery).dtype, cached = node.out(1).dtype;
  for (const int input : {kKey, kValue, kCos, kSin}) {
    if (auto error = expect_type(node, input, type)) return error;
  }
  for (const int input : {kPastKey, kPastValue}) {
    if (auto error = expect_type(node, input, cached)) return error;
  }
  return {};
}

std::optional<Error> check_operands(const NodeContext& node) {
  if (node.has(kKey) != node.has(kValue)) return node.failed("key without value");
  if (!node.has(kSeqlens) || node.in(kSeqlens).dtype != model::DType::i32) return node.failed("seqlens_k isn't int32");
  for (int input = kSin + 1; input < node.inputs(); ++input) {
    if (node.has(input)) return node.failed(fmt::format("input {} isn't supported", input));
  }
  if (!node.has_out(1) || !node.has_out(2))
    return node.failed("without present_key and present_value it isn't supported");
  if (node.in(kSeqlens).elements() != node.in(kQuery).dim(0))
    return node.failed("seqlens_k needs one length a batch row");
  return check_types(node);
}

void set_rows(const NodeContext& node, kernels::AttentionArguments& arguments) {
  const int64_t q_width = arguments.heads * arguments.head_size, kv_width = arguments.kv_heads * arguments.head_size;
  const Tensor& query = node.in(kQuery);
  arguments.query = query.data;
  arguments.query_stride = arguments.key_stride = arguments.value_stride = query.dim(2);
  if (node.has(kKey)) {
    arguments.key = node.in(kKey).data;
    arguments.value = node.in(kValue).data;
    arguments.key_stride = arguments.value_stride = kv_width;
  } else if (query.data != nullptr) {
    const auto element = int64_t(model::dtype_bytes(query.dtype));
    arguments.key = query.data + q_width * element;
    arguments.value = query.data + (q_width + kv_width) * element;
  }
}

std::optional<Error> set_rotary(const NodeContext& node, kernels::AttentionArguments& arguments) {
  if (node.node().int_attribute("do_rotary", 0) == 0) return {};
  if (!node.has(kCos) || !node.has(kSin)) return node.failed("do_rotary without cos_cache and sin_cache");
  const Tensor &cos = node.in(kCos), &sin = node.in(kSin);
  const bool interleaved = node.node().int_attribute("rotary_interleaved", 0) != 0;
  arguments.rotary = {cos.data, sin.data, cos.dim(0), cos.dim(1), interleaved, arguments.type};
  return {};
}

int64_t total_length(const NodeContext& node) {
  const auto total = integers(node, nullptr, kTotal);
  return total && total->count == 1 ? total->values[0] : node.out(1).dim(2);
}

}  // namespace

Status run_group_query_attention(NodeContext& node) {
  if (auto error = check_operands(node)) return *error;
  const auto type = element_type(node.in(kQuery).dtype), cache_type = element_type(node.out(1).dtype);
  if (!type || !cache_type) return node.failed("elements of a type that isn't computed on");
  kernels::AttentionArguments arguments;
  arguments.type = *type;
  arguments.cache_type = *cache_type;
  arguments.batch = node.in(kQuery).dim(0);
  arguments.sequence = node.in(kQuery).dim(1);
  arguments.heads = node.node().int_attribute("num_heads", 0);
  arguments.kv_heads = node.node().int_attribute("kv_num_heads", 0);
  const int64_t row_heads = arguments.heads + (node.has(kKey) ? 0 : 2 * arguments.kv_heads);
  if (row_heads <= 0) return node.failed("no heads");
  arguments.head_size = node.in(kQuery).dim(2) / row_heads;
  set_rows(node, arguments);
  if (auto error = set_rotary(node, arguments)) return *error;
  arguments.output = node.out(0).data;
  arguments.keys = cache_view(node.out(1));
  arguments.values = cache_view(node.out(2));
  arguments.capacity = node.out(1).dim(2);
  arguments.seqlens_k = node.in(kSeqlens).read<int32_t>();
  arguments.total_sequence_length = total_length(node);
  arguments.scale = node.node().float_attribute("scale", 0);
  if (arguments.scale == 0) arguments.scale = float(1 / std::sqrt(double(arguments.head_size)));
  arguments.softcap = node.node().float_attribute("softcap", 0);
  arguments.window = node.node().int_attribute("local_window_size", -1);
  for (const int part : {0, 1}) {
    if (Status status = copy_past(node, kPastKey + part, 1 + part); !status) return status;
  }
  if (!node.measuring()) {
    if (const char* reason = kernels::attention_error(arguments)) return node.failed(reason);
  }
  node.run(kernels::attention_call(arguments, node.isa()));
  return ok_status();
}

}  // namespace ompipe::exec
