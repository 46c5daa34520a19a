#include <fmt/format.h>

#include <algorithm>

#include "rules.h"

namespace ompipe::model::rules {
namespace {

constexpr std::initializer_list<DType> kArithmetic = {DType::f32, DType::i64, DType::i32};

void copy_shape(InferContext& context, int input, int output) {
  const TensorFact& from = context.in(input);
  TensorFact& to = context.out(output);
  to.has_shape = from.has_shape;
  to.rank = from.rank;
  to.dims = from.dims;
}

// Follows integer contents through an element-wise function of all inputs from `first` on, where each is a scalar, or
// has as many elements as the result.
template <class Function>
void follow(InferContext& context, Function function) {
  TensorFact& result = context.out(0);
  const Extent count = result.count();
  if (!count.known() || count.value > int64_t(kMaxFollowedElements)) return;
  for (int i = 0; i < context.inputs(); ++i) {
    const TensorFact& input = context.in(i);
    if (!input.contents || (input.content_count != 1 && input.content_count != count.value)) return;
  }
  Extent* items = context.new_contents(size_t(count.value));
  auto item = [&](int input, int64_t k) {
    const TensorFact& fact = context.in(input);
    return fact.contents[fact.content_count == 1 ? 0 : k];
  };
  for (int64_t k = 0; k < count.value; ++k) items[k] = function(item, k);
  result.contents = items;
  result.content_count = uint32_t(count.value);
}

Extent combined(InferContext& context, Extent a, Extent b) {
  switch (context.node().kind()) {
    case OpKind::add:
      return context.add(a, b);
    case OpKind::sub:
      return context.sub(a, b);
    case OpKind::mul:
      return context.mul(a, b);
    case OpKind::div:
      return context.div(a, b);
    case OpKind::min:
      return a.known() && b.known() ? Extent{std::min(a.value, b.value)} : unknown_extent();
    case OpKind::max:
      return a.known() && b.known() ? Extent{std::max(a.value, b.value)} : unknown_extent();
    default:
      return unknown_extent();
  }
}

// Whether a number can be an element of the type; booleans are handled apart.
bool fits(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::i64:
      return true;
    case DType::i32:
      return value == int32_t(value);
    case DType::u8:
      return value == uint8_t(value);
    case DType::i8:
      return value == int8_t(value);
    default:
      return false;
  }
}

}  // namespace

bool unary_float(InferContext& context) {
  if (!context.expect_dtype(0, {DType::f32})) return false;
  context.out(0).dtype = DType::f32;
  copy_shape(context, 0, 0);
  return true;
}

bool unary_number(InferContext& context) {
  if (!context.expect_dtype(0, kArithmetic)) return false;
  context.out(0).dtype = context.in(0).dtype;
  copy_shape(context, 0, 0);
  follow(context, [&](auto& item, int64_t k) {
    const Extent value = item(0, k);
    if (context.node().kind() == OpKind::neg) return context.sub({0}, value);
    return value.known() ? Extent{std::max<int64_t>(value.value, 0)} : unknown_extent();
  });
  return true;
}

bool binary_number(InferContext& context) {
  const int last = context.inputs() - 1;
  for (int i = 0; i <= last; ++i) {
    if (!context.has(i)) return context.fail(fmt::format("input {} is missing", i));
    if (!context.expect_dtype(i, kArithmetic) || !context.expect_same_dtype(0, i)) return false;
  }
  context.out(0).dtype = context.in(0).dtype;
  if (!context.broadcast_inputs(0, last)) return false;
  follow(context, [&](auto& item, int64_t k) {
    Extent value = item(0, k);
    for (int i = 1; i <= last; ++i) value = combined(context, value, item(i, k));
    return value;
  });
  return true;
}

bool power(InferContext& context) {
  if (!context.expect_dtype(0, {DType::f32}) || !context.expect_dtype(1, kArithmetic)) return false;
  context.out(0).dtype = DType::f32;
  return context.broadcast_inputs(0, 1);
}

bool equal(InferContext& context) {
  if (!context.expect_dtype(0, {DType::f32, DType::i64, DType::i32, DType::boolean})) return false;
  if (!context.expect_same_dtype(0, 1)) return false;
  context.out(0).dtype = DType::boolean;
  if (!context.broadcast_inputs(0, 1)) return false;
  follow(context, [&](auto& item, int64_t k) {
    const Extent a = item(0, k), b = item(1, k);
    if (a == b) return Extent{1};
    return a.known() && b.known() ? Extent{0} : unknown_extent();
  });
  return true;
}

bool where(InferContext& context) {
  if (!context.expect_dtype(0, {DType::boolean}) || !context.expect_same_dtype(1, 2)) return false;
  context.out(0).dtype = context.in(1).dtype;
  if (!context.broadcast_inputs(0, 2)) return false;
  follow(context, [&](auto& item, int64_t k) {
    const Extent condition = item(0, k);
    if (!condition.known()) return item(1, k) == item(2, k) ? item(1, k) : unknown_extent();
    return item(condition.value ? 1 : 2, k);
  });
  return true;
}

bool cast(InferContext& context) {
  const DType to = DType(context.node().int_attribute("to", 0));
  const std::initializer_list<DType> known = {DType::f32, DType::f16,     DType::bf16, DType::i64, DType::i32,
                                              DType::u8,  DType::boolean, DType::i8,   DType::f64};
  if (!context.expect_dtype(0, known)) return false;
  if (std::find(known.begin(), known.end(), to) == known.end()) {
    return context.fail(fmt::format("cast to {} ({}) is not supported", dtype_name(to), int32_t(to)));
  }
  context.out(0).dtype = to;
  copy_shape(context, 0, 0);
  if (!is_integer(to)) return true;
  follow(context, [&](auto& item, int64_t k) {
    const Extent value = item(0, k);
    if (to == DType::boolean) return value.known() ? Extent{value.value != 0} : unknown_extent();
    // A symbol stands for a length, which every wide integer holds.
    return !value.known() || fits(value.value, to) ? value : unknown_extent();
  });
  return true;
}

bool same(InferContext& context) {
  TensorFact& result = context.out(0);
  result = context.in(0);
  TensorFact& mask = context.out(1);
  mask = context.in(0);
  mask.dtype = DType::boolean;
  mask.contents = nullptr;
  mask.content_count = 0;
  return true;
}

}  // namespace ompipe::model::rules
