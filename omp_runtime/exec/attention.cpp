#include "ompipe/kernels/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "nodes.h"

namespace ompipe::exec {
namespace {

enum Input : int { kQuery, kKey, kValue, kPastKey, kPastValue, kSeqlens, kTotal, kCos, kSin };

kernels::CacheView cache_view(const Tensor& present) {
  return {present.write<float>(), present.layout.strides[0], present.layout.strides[1], present.layout.strides[2]};
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

std::optional<Error> check_operands(const NodeContext& node) {
  for (const int input : {kQuery, kKey, kValue, kPastKey, kPastValue, kCos, kSin}) {
    const bool required = input == kQuery;
    if (!required && !node.has(input)) continue;
    if (auto error = expect_float(node, input)) return error;
  }
  if (node.has(kKey) != node.has(kValue)) return node.failed("key without value");
  if (!node.has(kSeqlens) || node.in(kSeqlens).dtype != model::DType::i32) return node.failed("seqlens_k isn't int32");
  for (int input = kSin + 1; input < node.inputs(); ++input) {
    if (node.has(input)) return node.failed(fmt::format("input {} isn't supported", input));
  }
  if (!node.has_out(1) || !node.has_out(2))
    return node.failed("without present_key and present_value it isn't supported");
  if (node.in(kSeqlens).elements() != node.in(kQuery).dim(0))
    return node.failed("seqlens_k needs one length a batch row");
  return {};
}

void set_rows(const NodeContext& node, kernels::AttentionArguments& arguments) {
  const int64_t q_width = arguments.heads * arguments.head_size, kv_width = arguments.kv_heads * arguments.head_size;
  arguments.query = node.in(kQuery).read<float>();
  arguments.query_stride = arguments.key_stride = arguments.value_stride = node.in(kQuery).dim(2);
  if (node.has(kKey)) {
    arguments.key = node.in(kKey).read<float>();
    arguments.value = node.in(kValue).read<float>();
    arguments.key_stride = arguments.value_stride = kv_width;
  } else if (arguments.query != nullptr) {
    arguments.key = arguments.query + q_width;
    arguments.value = arguments.key + kv_width;
  }
}

std::optional<Error> set_rotary(const NodeContext& node, kernels::AttentionArguments& arguments) {
  if (node.node().int_attribute("do_rotary", 0) == 0) return {};
  if (!node.has(kCos) || !node.has(kSin)) return node.failed("do_rotary without cos_cache and sin_cache");
  arguments.rotary = {node.in(kCos).read<float>(), node.in(kSin).read<float>(), node.in(kCos).dim(0),
                      node.in(kCos).dim(1), node.node().int_attribute("rotary_interleaved", 0) != 0};
  return {};
}

int64_t total_length(const NodeContext& node) {
  const auto total = integers(node, nullptr, kTotal);
  return total && total->count == 1 ? total->values[0] : node.out(1).dim(2);
}

}  // namespace

Status run_group_query_attention(NodeContext& node) {
  if (auto error = check_operands(node)) return *error;
  kernels::AttentionArguments arguments;
  arguments.batch = node.in(kQuery).dim(0);
  arguments.sequence = node.in(kQuery).dim(1);
  arguments.heads = node.node().int_attribute("num_heads", 0);
  arguments.kv_heads = node.node().int_attribute("kv_num_heads", 0);
  const int64_t row_heads = arguments.heads + (node.has(kKey) ? 0 : 2 * arguments.kv_heads);
  if (row_heads <= 0) return node.failed("no heads");
  arguments.head_size = node.in(kQuery).dim(2) / row_heads;
  set_rows(node, arguments);
  if (auto error = set_rotary(node, arguments)) return *error;
  arguments.output = node.out(0).write<float>();
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
