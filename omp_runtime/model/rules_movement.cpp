#include <fmt/format.h>

#include <algorithm>

#include "rules.h"

namespace ompipe::model::rules {
namespace {

// Fails for strings and types this runtime doesn't hold.
bool expect_movable(InferContext& context, int input) {
  if (dtype_bytes(context.in(input).dtype) != 0) return true;
  return context.fail(
      fmt::format("input {} is {}, which is not supported", input, dtype_name(context.in(input).dtype)));
}

// Start and length of one sliced axis, as ONNX clamps them.
struct Cut {
  int64_t start = 0, count = 0;
};

Cut cut_axis(int64_t dim, int64_t start, int64_t end, int64_t step) {
  auto from_end = [&](int64_t at) { return at < 0 ? at + dim : at; };
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  start = std::clamp<int64_t>(from_end(start), step > 0 ? 0 : -1, high);
  end = end < -dim ? low : std::clamp<int64_t>(from_end(end), low, high);
  const int64_t span = step > 0 ? end - start : start - end;
  const int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
  return {start, span <= 0 ? 0 : (span - 1) / stride + 1};
}

constexpr int64_t kToTheEnd = INT32_MAX;  // exporters write INT32_MAX or INT64_MAX for "to the end"

}  // namespace

bool transpose(InferContext& context) {
  if (!expect_movable(context, 0)) return false;
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  if (!x.has_shape) return true;
  const Integers order = context.integers("perm", -1);
  if (order.given && order.count != x.rank) {
    return context.fail(fmt::format("perm of {} axes for shape {}", order.count, x.shape_text(context.symbols())));
  }
  result.has_shape = true;
  result.rank = x.rank;
  uint32_t seen = 0;
  for (int i = 0; i < x.rank; ++i) {
    const int64_t from = order.given ? order.values[size_t(i)] : x.rank - 1 - i;
    if (from < 0 || from >= x.rank || (seen >> from & 1)) return context.fail("perm is not a permutation");
    seen |= 1u << from;
    result.dims[size_t(i)] = x.dims[size_t(from)];
  }
  if (x.rank <= 1) {
    result.contents = x.contents;
    result.content_count = x.content_count;
  }
  return true;
}

bool concat(InferContext& context) {
  TensorFact& result = context.out(0);
  for (int i = 0; i < context.inputs(); ++i) {
    if (!context.has(i)) return context.fail(fmt::format("input {} is missing", i));
    if (!expect_movable(context, i) || !context.expect_same_dtype(0, i)) return false;
  }
  const TensorFact& first = context.in(0);
  result.dtype = first.dtype;
  if (!context.node().attribute("axis")) return context.fail("axis is missing");
  for (int i = 0; i < context.inputs(); ++i) {
    if (!context.in(i).has_shape) return true;
    if (!context.expect_rank(i, first.rank, first.rank)) return false;
  }
  int axis = 0;
  if (!context.normalise_axis(context.node().int_attribute("axis", 0), first.rank, &axis)) return false;
  result.has_shape = true;
  result.rank = first.rank;
  result.dims = first.dims;
  bool followed = first.rank == 1 && first.contents;
  size_t elements = followed ? first.content_count : 0;
  for (int i = 1; i < context.inputs(); ++i) {
    const TensorFact& next = context.in(i);
    for (int d = 0; d < first.rank; ++d) {
      Extent& dim = result.dims[size_t(d)];
      const Extent other = next.dims[size_t(d)];
      if (d == axis) {
        dim = context.add(dim, other);
      } else if (dim.known() && other.known() && dim.value != other.value) {
        return context.fail(fmt::format("shapes {} and {} differ outside axis {}", first.shape_text(context.symbols()),
                                        next.shape_text(context.symbols()), axis));
      } else if (!dim.known()) {
        dim = other.known() ? other : dim;
      }
    }
    followed = followed && next.contents;
    if (followed) elements += next.content_count;
  }
  if (!followed || elements > kMaxFollowedElements) return true;
  Extent* items = context.new_contents(elements);
  result.contents = items;
  result.content_count = uint32_t(elements);
  for (int i = 0; i < context.inputs(); ++i) {
    items = std::copy_n(context.in(i).contents, context.in(i).content_count, items);
  }
  return true;
}

bool slice(InferContext& context) {
  if (!expect_movable(context, 0)) return false;
  const bool by_attribute = context.node().opset < 10;
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  if (!by_attribute) {
    if (!context.has(1) || !context.has(2)) return context.fail("starts and ends are missing");
    for (int i = 1; i < context.inputs(); ++i) {
      if (context.has(i) && (!context.expect_dtype(i, {DType::i64, DType::i32}) || !context.expect_rank(i, 1, 1)))
        return false;
    }
  }
  const Integers axes = context.integers("axes", by_attribute ? -1 : 3);
  const Integers steps = context.integers(nullptr, by_attribute ? -1 : 4);
  const Integers starts = context.integers("starts", by_attribute ? -1 : 1);
  const Integers ends = context.integers("ends", by_attribute ? -1 : 2);
  if (!x.has_shape) return true;
  result.has_shape = true;
  result.rank = x.rank;
  result.dims = x.dims;
  if (axes.given && !axes.known) {
    result.dims.fill(unknown_extent());
    return true;
  }
  const int cuts = axes.given ? axes.count : starts.known ? starts.count : ends.known ? ends.count : x.rank;
  if ((starts.known && starts.count != cuts) || (ends.known && ends.count != cuts) ||
      (steps.known && steps.count != cuts)) {
    return context.fail("starts, ends, axes and steps have different lengths");
  }
  const bool follows = x.rank == 1 && x.contents && cuts == 1 && x.dims[0].known() && starts.known && ends.known &&
                       (!steps.given || steps.known);
  uint32_t cut_axes = 0;
  for (int i = 0; i < cuts; ++i) {
    int axis = 0;
    if (!context.normalise_axis(axes.given ? axes.values[size_t(i)] : i, x.rank, &axis)) return false;
    if (cut_axes >> axis & 1) return context.fail(fmt::format("axis {} is given twice", axis));
    cut_axes |= 1u << axis;
    const int64_t step = !steps.given ? 1 : steps.known ? steps.values[size_t(i)] : 0;
    if (step == 0 && (!steps.given || steps.known)) return context.fail("step is 0");
    Extent& dim = result.dims[size_t(axis)];
    if (!starts.known || !ends.known || step == 0) {
      dim = unknown_extent();
      continue;
    }
    const int64_t start = starts.values[size_t(i)], end = ends.values[size_t(i)];
    if (!dim.known()) {
      if (start != 0 || step != 1 || end < kToTheEnd) dim = unknown_extent();
      continue;
    }
    const Cut cut = cut_axis(dim.value, start, end, step);
    if (follows) {
      Extent* items = context.new_contents(size_t(cut.count));
      for (int64_t k = 0; k < cut.count; ++k) items[k] = x.contents[cut.start + k * step];
      result.contents = items;
      result.content_count = uint32_t(cut.count);
    }
    dim = {cut.count};
  }
  return true;
}

bool split(InferContext& context) {
  if (!expect_movable(context, 0)) return false;
  const TensorFact& x = context.in(0);
  const int parts = context.outputs();
  for (int i = 0; i < parts; ++i) context.out(i).dtype = x.dtype;
  const Integers sizes = context.integers("split", 1);
  if (!x.has_shape) return true;
  int axis = 0;
  if (!context.normalise_axis(context.node().int_attribute("axis", 0), x.rank, &axis)) return false;
  if (sizes.known && sizes.count != parts) {
    return context.fail(fmt::format("{} sizes for {} outputs", sizes.count, parts));
  }
  const Extent whole = x.dims[size_t(axis)];
  const int64_t stated_parts = context.node().int_attribute("num_outputs", parts);
  if (stated_parts != parts) return context.fail(fmt::format("num_outputs is {}, it has {}", stated_parts, parts));
  const bool uneven = context.node().attribute("num_outputs") != nullptr;  // opset 18: the last part may be smaller
  if (!sizes.given && whole.known() && !uneven && whole.value % parts != 0) {
    return context.fail(fmt::format("{} elements don't split into {} equal parts", whole.value, parts));
  }
  int64_t at = 0;
  for (int i = 0; i < parts; ++i) {
    Extent size = unknown_extent();
    if (sizes.known) {
      size = {sizes.values[size_t(i)]};
    } else if (!sizes.given && whole.known()) {
      const int64_t each = (whole.value + parts - 1) / parts;
      size = {std::clamp<int64_t>(whole.value - i * each, 0, each)};
    } else if (!sizes.given) {
      size = context.div(whole, {parts});
    }
    TensorFact& part = context.out(i);
    part.dtype = x.dtype;
    part.has_shape = true;
    part.rank = x.rank;
    part.dims = x.dims;
    part.dims[size_t(axis)] = size;
    if (!size.known()) continue;
    if (size.value < 0 || __builtin_add_overflow(at, size.value, &at))
      return context.fail("split with a negative size");
    if (x.rank == 1 && x.contents && at <= int64_t(x.content_count)) {
      part.contents = x.contents + (at - size.value);
      part.content_count = uint32_t(size.value);
    }
  }
  if (sizes.known && whole.known() && at != whole.value) {
    return context.fail(fmt::format("sizes add up to {}, the axis has {}", at, whole.value));
  }
  return true;
}

bool gather(InferContext& context) {
  if (!expect_movable(context, 0) || !context.expect_dtype(1, {DType::i64, DType::i32})) return false;
  const TensorFact &x = context.in(0), &indices = context.in(1);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  if (!x.has_shape || !indices.has_shape) return true;
  int axis = 0;
  if (!context.expect_rank(0, 1, kMaxRank)) return false;
  if (!context.normalise_axis(context.node().int_attribute("axis", 0), x.rank, &axis)) return false;
  const int rank = x.rank - 1 + indices.rank;
  if (rank > kMaxRank) return context.fail(fmt::format("result of rank {}, at most {} is supported", rank, kMaxRank));
  result.has_shape = true;
  for (int i = 0; i < axis; ++i) result.dims[result.rank++] = x.dims[size_t(i)];
  for (int i = 0; i < indices.rank; ++i) result.dims[result.rank++] = indices.dims[size_t(i)];
  for (int i = axis + 1; i < x.rank; ++i) result.dims[result.rank++] = x.dims[size_t(i)];

  const Extent dim = x.dims[size_t(axis)];
  const bool follows = x.rank == 1 && x.contents && indices.contents_known();
  Extent* items = follows ? context.new_contents(indices.content_count) : nullptr;
  for (uint32_t k = 0; dim.known() && indices.contents && k < indices.content_count; ++k) {
    if (!indices.contents[k].known()) continue;
    const int64_t index = indices.contents[k].value;
    if (index < -dim.value || index >= dim.value) {
      return context.fail(fmt::format("index {} is outside an axis of {}", index, dim.value));
    }
    if (follows) items[k] = x.contents[index < 0 ? index + dim.value : index];
  }
  if (follows && dim.known()) {
    result.contents = items;
    result.content_count = indices.content_count;
  }
  return true;
}

}  // namespace ompipe::model::rules
