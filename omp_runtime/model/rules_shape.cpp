#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ompipe/model/decode.h"
#include "rules.h"

namespace ompipe::model::rules {
namespace {

void pass_contents(const TensorFact& from, TensorFact& to) {
  to.contents = from.contents;
  to.content_count = from.content_count;
}

// A shape operand: its elements if they are followed, and how many there are if that is known.
struct ShapeOperand {
  const Extent* dims = nullptr;
  int count = -1;
};

bool read_shape_operand(InferContext& context, int input, ShapeOperand* operand) {
  if (!context.expect_dtype(input, {DType::i64}) || !context.expect_rank(input, 1, 1)) return false;
  const TensorFact& fact = context.in(input);
  if (fact.has_shape && fact.dims[0].known()) {
    if (fact.dims[0].value > kMaxRank) {
      return context.fail(fmt::format("shape of rank {}, at most {} is supported", fact.dims[0].value, kMaxRank));
    }
    operand->count = int(fact.dims[0].value);
  }
  if (fact.contents && int(fact.content_count) == operand->count) operand->dims = fact.contents;
  return true;
}

// Quotient of two products of dimensions where it can be told: numbers are divided, symbols on both sides cancelled.
Extent quotient(InferContext& context, const Extent* top, int tops, const Extent* bottom, int bottoms) {
  bool cancelled[kMaxRank] = {};
  Extent above{1}, above_number{1}, below{1}, below_number{1};
  for (int i = 0; i < bottoms; ++i) {
    bool gone = bottom[i].known();
    if (gone) below_number = context.mul(below_number, bottom[i]);
    for (int k = 0; k < tops && !gone; ++k) {
      if (!cancelled[k] && top[k] == bottom[i]) gone = cancelled[k] = true;
    }
    if (!gone) below = context.mul(below, bottom[i]);
  }
  for (int k = 0; k < tops; ++k) {
    Extent& product = top[k].known() ? above_number : above;
    if (!cancelled[k]) product = context.mul(product, top[k]);
  }
  if (!above_number.known() || !below_number.known() || below_number.value == 0) return unknown_extent();
  if (above_number.value % below_number.value == 0) {
    above_number.value /= below_number.value;
    below_number.value = 1;
  }
  const Extent whole = context.mul(above, above_number), part = context.mul(below, below_number);
  // Numbers that don't divide leave no dimension; symbols may still turn out to.
  return whole.known() && part.known() && !part.is(1) ? unknown_extent() : context.div(whole, part);
}

}  // namespace

bool shape(InferContext& context) {
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = DType::i64;
  result.has_shape = true;
  result.rank = 1;
  if (!x.has_shape) {
    result.dims[0] = unknown_extent();
    return true;
  }
  auto clamp = [&](int64_t end) { return int(std::clamp<int64_t>(end < 0 ? end + x.rank : end, 0, x.rank)); };
  const int first = clamp(context.node().int_attribute("start", 0));
  const int last = std::max(first, clamp(context.node().int_attribute("end", x.rank)));
  Extent* items = context.new_contents(size_t(last - first));
  std::copy(x.dims.begin() + first, x.dims.begin() + last, items);
  result.dims[0] = {last - first};
  result.contents = items;
  result.content_count = uint32_t(last - first);
  return true;
}

bool reshape(InferContext& context) {
  ShapeOperand wanted;
  if (!read_shape_operand(context, 1, &wanted)) return false;
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  pass_contents(x, result);
  if (wanted.count < 0) return true;
  result.has_shape = true;
  result.rank = uint8_t(wanted.count);
  if (!wanted.dims) {
    result.dims.fill(unknown_extent());
    return true;
  }
  const bool keep_zero = context.node().int_attribute("allowzero", 0) != 0;
  int open = -1;
  for (int i = 0; i < wanted.count; ++i) {
    Extent dim = wanted.dims[i];
    if (dim.is(-1)) {
      if (open >= 0) return context.fail("shape with two -1");
      open = i;
      dim = {1};
    } else if (dim.is(0) && !keep_zero) {
      if (x.has_shape && i >= x.rank)
        return context.fail(fmt::format("0 at {} of a shape, input has rank {}", i, int(x.rank)));
      dim = x.has_shape ? x.dims[size_t(i)] : unknown_extent();
    }
    result.dims[size_t(i)] = dim;
  }
  if (open >= 0) {
    Extent rest[kMaxRank];
    int rests = 0;
    for (int i = 0; i < wanted.count; ++i) {
      if (i != open) rest[rests++] = result.dims[size_t(i)];
    }
    result.dims[size_t(open)] = x.has_shape ? quotient(context, x.dims.data(), x.rank, rest, rests) : unknown_extent();
  }
  const Extent had = x.count(), have = result.count();
  const bool divides = open < 0 || result.dims[size_t(open)].known() || !had.known();
  bool rest_known = true;
  for (int i = 0; i < wanted.count; ++i) rest_known = rest_known && (i == open || result.dims[size_t(i)].known());
  if ((had.known() && have.known() && had.value != have.value) || (!divides && rest_known)) {
    return context.fail(fmt::format("{} elements of shape {} don't fill shape {}", had.known() ? had.value : -1,
                                    x.shape_text(context.symbols()), result.shape_text(context.symbols())));
  }
  return true;
}

bool squeeze(InferContext& context) {
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  pass_contents(x, result);
  const Integers axes = context.integers("axes", 1);
  if (!x.has_shape || (axes.given && !axes.known)) return true;
  uint32_t gone = 0;
  for (int i = 0; i < axes.count; ++i) {
    int axis = 0;
    if (!context.normalise_axis(axes.values[size_t(i)], x.rank, &axis)) return false;
    const Extent dim = x.dims[size_t(axis)];
    if (dim.known() && dim.value != 1)
      return context.fail(fmt::format("axis {} of {} is not 1", axis, x.shape_text(context.symbols())));
    if (gone >> axis & 1) return context.fail(fmt::format("axis {} is given twice", axis));
    gone |= 1u << axis;
  }
  for (int i = 0; !axes.given && i < x.rank; ++i) {
    if (!x.dims[size_t(i)].known()) return true;  // whether it goes isn't known
    if (x.dims[size_t(i)].value == 1) gone |= 1u << i;
  }
  result.has_shape = true;
  for (int i = 0; i < x.rank; ++i) {
    if ((gone >> i & 1) == 0) result.dims[result.rank++] = x.dims[size_t(i)];
  }
  return true;
}

bool unsqueeze(InferContext& context) {
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  pass_contents(x, result);
  const Integers axes = context.integers("axes", 1);
  if (!axes.given) return context.fail("axes are missing");
  if (!x.has_shape || !axes.known) return true;
  const int rank = x.rank + axes.count;
  if (rank > kMaxRank) return context.fail(fmt::format("result of rank {}, at most {} is supported", rank, kMaxRank));
  uint32_t fresh = 0;
  for (int i = 0; i < axes.count; ++i) {
    int axis = 0;
    if (!context.normalise_axis(axes.values[size_t(i)], rank, &axis)) return false;
    if (fresh >> axis & 1) return context.fail(fmt::format("axis {} is given twice", axis));
    fresh |= 1u << axis;
  }
  result.has_shape = true;
  result.rank = uint8_t(rank);
  for (int i = 0, from = 0; i < rank; ++i) result.dims[size_t(i)] = fresh >> i & 1 ? Extent{1} : x.dims[size_t(from++)];
  return true;
}

bool expand(InferContext& context) {
  ShapeOperand wanted;
  if (!read_shape_operand(context, 1, &wanted)) return false;
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  if (!x.has_shape || wanted.count < 0) return true;
  const int rank = std::max<int>(x.rank, wanted.count);
  result.has_shape = true;
  result.rank = uint8_t(rank);
  for (int i = 0; i < rank; ++i) {
    const int from = i - (rank - x.rank), to = i - (rank - wanted.count);
    const Extent have = from >= 0 ? x.dims[size_t(from)] : Extent{1};
    const Extent want = to < 0 ? Extent{1} : wanted.dims ? wanted.dims[to] : unknown_extent();
    if (!context.broadcast(have, want, &result.dims[size_t(i)])) {
      return context.fail(
          fmt::format("shape {} doesn't expand to {} along axis {}", x.shape_text(context.symbols()), want.value, i));
    }
  }
  const Extent count = result.count();
  if (x.contents && x.content_count == 1 && count.known() && count.value <= int64_t(kMaxFollowedElements)) {
    Extent* items = context.new_contents(size_t(count.value));
    std::fill_n(items, count.value, x.contents[0]);
    result.contents = items;
    result.content_count = uint32_t(count.value);
  } else if (x.contents && count.is(int64_t(x.content_count))) {
    pass_contents(x, result);
  }
  return true;
}

bool constant_of_shape(InferContext& context) {
  ShapeOperand wanted;
  if (!read_shape_operand(context, 0, &wanted)) return false;
  TensorFact& result = context.out(0);
  result.dtype = DType::f32;
  const AttributeValue* attribute = context.node().attribute("value");
  const auto* fill = attribute ? std::get_if<ConstantTensor>(attribute) : nullptr;
  if (fill) result.dtype = fill->dtype;
  if (fill && fill->bytes.size() != dtype_bytes(fill->dtype)) return context.fail("value must have one element");
  if (wanted.count < 0) return true;
  result.has_shape = true;
  result.rank = uint8_t(wanted.count);
  for (int i = 0; i < wanted.count; ++i) result.dims[size_t(i)] = wanted.dims ? wanted.dims[i] : unknown_extent();
  const Extent count = result.count();
  if (!is_integer(result.dtype) || !count.known() || count.value < 0 || count.value > int64_t(kMaxFollowedElements))
    return true;
  Extent* items = context.new_contents(size_t(count.value));
  std::fill_n(items, count.value, Extent{fill ? fill->as_int64()[0] : 0});
  result.contents = items;
  result.content_count = uint32_t(count.value);
  return true;
}

bool range(InferContext& context) {
  if (!context.expect_dtype(0, {DType::i64, DType::i32, DType::f32})) return false;
  for (int i = 0; i < 3; ++i) {
    if (!context.expect_same_dtype(0, i)) return false;
    if (const Extent count = context.in(i).count(); count.known() && count.value != 1) {
      return context.fail(
          fmt::format("input {} has shape {}, expected a scalar", i, context.in(i).shape_text(context.symbols())));
    }
  }
  TensorFact& result = context.out(0);
  result.dtype = context.in(0).dtype;
  result.has_shape = true;
  result.rank = 1;
  result.dims[0] = unknown_extent();
  const Extent* parts[3];
  for (int i = 0; i < 3; ++i) {
    if (!context.in(i).contents || context.in(i).content_count != 1) return true;
    parts[i] = context.in(i).contents;
  }
  const Extent start = *parts[0], limit = *parts[1], delta = *parts[2];
  if (delta.is(0)) return context.fail("delta is 0");
  if (!start.known() || !limit.known() || !delta.known()) {
    if (delta.is(1)) result.dims[0] = context.sub(limit, start);
    return true;
  }
  int64_t span = 0;
  if (__builtin_sub_overflow(limit.value, start.value, &span) || delta.value == INT64_MIN)
    return context.fail("range overflows");
  const int64_t step = std::abs(delta.value);
  if (delta.value < 0) span = span == INT64_MIN ? INT64_MAX : -span;
  const int64_t count = span <= 0 ? 0 : span / step + (span % step != 0);
  result.dims[0] = {count};
  if (count > int64_t(kMaxFollowedElements)) return true;
  Extent* items = context.new_contents(size_t(count));
  for (int64_t i = 0; i < count; ++i) items[i] = {start.value + i * delta.value};
  result.contents = items;
  result.content_count = uint32_t(count);
  return true;
}

}  // namespace ompipe::model::rules
