#include <fmt/format.h>

#include "rules.h"

namespace ompipe::model::rules {
namespace {

enum GqaInput { kQuery, kKey, kValue, kPastKey, kPastValue, kLengths, kTotal, kCos, kSin, kPositions, kBias, kSink };

bool expect_cache(InferContext& context, int input, int64_t kv_heads, int64_t head_size) {
  return context.expect_dtype(input, {DType::f32, DType::f16}) && context.expect_rank(input, 4, 4) &&
         context.expect_dim(input, 1, kv_heads) && context.expect_dim(input, 3, head_size);
}

}  // namespace

bool group_query_attention(InferContext& context) {
  const Node& node = context.node();
  const int64_t heads = node.int_attribute("num_heads", 0), kv_heads = node.int_attribute("kv_num_heads", 0);
  if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0) {
    return context.fail(fmt::format("num_heads {} is not a multiple of kv_num_heads {}", heads, kv_heads));
  }
  for (int unsupported : {kPositions, kBias, kSink}) {
    if (context.has(unsupported)) return context.fail(fmt::format("input {} is not supported", int(unsupported)));
  }
  for (int wanted : {kLengths, kTotal}) {
    if (!context.has(wanted)) return context.fail(fmt::format("input {} is missing", int(wanted)));
    if (!context.expect_dtype(wanted, {DType::i32})) return false;
  }
  if (!context.expect_dtype(kQuery, {DType::f32, DType::f16}) || !context.expect_rank(kQuery, 3, 3)) return false;
  const TensorFact& query = context.in(kQuery);
  TensorFact &result = context.out(0), &present_key = context.out(1);
  const DType type = result.dtype = query.dtype;
  for (int output : {1, 2}) context.out(output).dtype = context.has(kPastKey) ? context.in(kPastKey).dtype : type;
  if (!query.has_shape) return true;

  const bool packed = !context.has(kKey);
  const int64_t parts = packed ? heads + 2 * kv_heads : heads;
  const Extent hidden = query.dims[2];
  if (!hidden.known() || hidden.value % (parts * 2) != 0 || hidden.value == 0) {
    return context.fail(fmt::format("query of shape {} does not hold {} heads of an even size",
                                    query.shape_text(context.symbols()), parts));
  }
  const int64_t head_size = hidden.value / parts;
  if (!packed) {
    for (int input : {kKey, kValue}) {
      if (!context.has(input)) return context.fail(fmt::format("input {} is missing", int(input)));
      if (!context.expect_dtype(input, {type}) || !context.expect_rank(input, 3, 3) ||
          !context.expect_dim(input, 2, kv_heads * head_size)) {
        return false;
      }
    }
  }
  Extent past{0};
  if (context.has(kPastKey) != context.has(kPastValue))
    return context.fail("past_key and past_value must come together");
  if (context.has(kPastKey)) {
    if (!expect_cache(context, kPastKey, kv_heads, head_size)) return false;
    if (!expect_cache(context, kPastValue, kv_heads, head_size)) return false;
    if (!context.expect_same_dtype(kPastKey, kPastValue)) return false;
    past = context.in(kPastKey).has_shape ? context.in(kPastKey).dims[2] : unknown_extent();
  }
  if (node.int_attribute("do_rotary", 0) != 0) {
    for (int cache : {kCos, kSin}) {
      if (!context.has(cache)) return context.fail(fmt::format("input {} is missing with do_rotary", int(cache)));
      if (!context.expect_dtype(cache, {type}) || !context.expect_rank(cache, 2, 2) ||
          !context.expect_dim(cache, 1, head_size / 2)) {
        return false;
      }
    }
  }
  const TensorFact& stated = context.in(kTotal);
  Extent total = context.add(past, query.dims[1]);
  if (stated.contents && stated.content_count == 1) {
    const Extent length = stated.contents[0];
    if (length.known() && total.known() && length.value != total.value) {
      return context.fail(fmt::format("total_sequence_length is {}, expected {} (past {} + {} new)", length.value,
                                      total.value, past.value, query.dims[1].value));
    }
    if (!total.known()) total = length;
  }
  result.has_shape = true;
  result.rank = 3;
  result.dims[0] = query.dims[0];
  result.dims[1] = query.dims[1];
  result.dims[2] = {heads * head_size};
  present_key.has_shape = true;
  present_key.rank = 4;
  present_key.dims[0] = query.dims[0];
  present_key.dims[1] = {kv_heads};
  present_key.dims[2] = total;
  present_key.dims[3] = {head_size};
  const TensorFact present = present_key;
  context.out(2) = present;
  return true;
}

bool gather_block_quantized(InferContext& context) {
  const Node& node = context.node();
  const int64_t block = node.int_attribute("block_size", 128);
  if (node.int_attribute("bits", 4) != 4) return context.fail("bits other than 4 are not supported");
  if (block != 16 && block != 32 && block != 64 && block != 128) {
    return context.fail(fmt::format("block_size {} is not supported, expected 16, 32, 64 or 128", block));
  }
  if (node.int_attribute("gather_axis", 0) != 0) return context.fail("gather_axis other than 0 is not supported");
  if (const int64_t axis = node.int_attribute("quantize_axis", 1); axis != 1 && axis != -1) {
    return context.fail("quantize_axis other than the last is not supported");
  }
  if (!context.expect_dtype(0, {DType::u8}) || !context.expect_rank(0, 2, 2)) return false;
  if (!context.expect_dtype(1, {DType::i64, DType::i32})) return false;
  if (!context.expect_dtype(2, {DType::f32}) || !context.expect_rank(2, 2, 2)) return false;
  const TensorFact &data = context.in(0), &indices = context.in(1);
  TensorFact& result = context.out(0);
  result.dtype = context.in(2).dtype;
  if (!data.has_shape || !indices.has_shape) return true;
  if (indices.rank == kMaxRank) return context.expect_rank(1, 0, kMaxRank - 1);
  const Extent width = context.mul(data.dims[1], {2});
  if (width.known()) {
    const int64_t blocks = (width.value + block - 1) / block;
    if (!context.expect_dim(2, 1, blocks)) return false;
    if (context.has(3) && (!context.expect_dtype(3, {DType::u8}) || !context.expect_dim(3, 1, (blocks + 1) / 2)))
      return false;
  }
  if (data.dims[0].known() && !context.expect_dim(2, 0, data.dims[0].value)) return false;
  result.has_shape = true;
  result.rank = uint8_t(indices.rank + 1);
  result.dims = indices.dims;
  result.dims[indices.rank] = width;
  return true;
}

}  // namespace ompipe::model::rules
