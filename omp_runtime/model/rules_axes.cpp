#include <fmt/format.h>

#include "rules.h"

namespace ompipe::model::rules {
namespace {

void copy_shape(const TensorFact& from, TensorFact& to) {
  to.has_shape = from.has_shape;
  to.rank = from.rank;
  to.dims = from.dims;
}

// Fails unless the input's shape broadcasts to the trailing axes [first, rank) of in(0): gains and biases.
bool expect_trailing(InferContext& context, int input, int first) {
  const TensorFact &x = context.in(0), &gain = context.in(input);
  if (!x.has_shape || !gain.has_shape) return true;
  const int wanted = x.rank - first;
  bool right = gain.rank <= wanted;
  for (int i = 0; right && i < gain.rank; ++i) {
    const Extent have = gain.dims[size_t(i)], full = x.dims[size_t(x.rank - gain.rank + i)];
    right = !have.known() || !full.known() || have.value == full.value || have.value == 1;
  }
  if (right) return true;
  return context.fail(fmt::format("input {} of shape {} doesn't fit the normalised axes of {}", input,
                                  gain.shape_text(context.symbols()), x.shape_text(context.symbols())));
}

// Writes the statistics' shape (normalised axes are 1) to the outputs from `first_output` to `last_output`.
void write_statistics(InferContext& context, int axis, int first_output, int last_output) {
  for (int output = first_output; output <= last_output; ++output) {
    TensorFact& statistics = context.out(output);
    copy_shape(context.in(0), statistics);
    statistics.dtype = DType::f32;
    for (int i = axis; i < statistics.rank; ++i) statistics.dims[size_t(i)] = {1};
  }
}

}  // namespace

bool softmax(InferContext& context) {
  if (!context.expect_dtype(0, {DType::f32}) || !context.expect_rank(0, 1, kMaxRank)) return false;
  const TensorFact& x = context.in(0);
  context.out(0).dtype = x.dtype;
  copy_shape(x, context.out(0));
  if (!x.has_shape) return true;
  const bool flattens = context.node().opset < 13;
  int axis = 0;
  if (!context.normalise_axis(context.node().int_attribute("axis", flattens ? 1 : -1), x.rank, &axis)) return false;
  if (flattens && axis != x.rank - 1) {
    return context.fail(fmt::format("Softmax before opset 13 over axes {} to {} is not supported", axis, x.rank - 1));
  }
  return true;
}

bool reduce(InferContext& context) {
  if (!context.expect_dtype(0, {DType::f32, DType::i64, DType::i32})) return false;
  const TensorFact& x = context.in(0);
  TensorFact& result = context.out(0);
  result.dtype = x.dtype;
  if (!x.has_shape) return true;
  const bool keep = context.node().int_attribute("keepdims", 1) != 0;
  const Integers axes = context.integers("axes", 1);
  if (axes.given && !axes.known) {
    // Which axes go isn't known: with keepdims the rank is.
    result.has_shape = keep;
    result.rank = keep ? x.rank : 0;
    result.dims.fill(unknown_extent());
    return true;
  }
  uint32_t reduced = 0;
  for (int i = 0; i < axes.count; ++i) {
    int axis = 0;
    if (!context.normalise_axis(axes.values[size_t(i)], x.rank, &axis)) return false;
    if (reduced >> axis & 1) return context.fail(fmt::format("axis {} is given twice", axis));
    reduced |= 1u << axis;
  }
  if (axes.count == 0 && context.node().int_attribute("noop_with_empty_axes", 0) == 0) reduced = ~0u;
  result.has_shape = true;
  for (int i = 0; i < x.rank; ++i) {
    if ((reduced >> i & 1) == 0) {
      result.dims[result.rank++] = x.dims[size_t(i)];
    } else if (keep) {
      result.dims[result.rank++] = {1};
    }
  }
  return true;
}

bool layer_norm(InferContext& context) {
  for (int i = 0; i < context.inputs(); ++i) {
    if (context.has(i) && !context.expect_dtype(i, {DType::f32})) return false;
  }
  if (!context.expect_rank(0, 1, kMaxRank)) return false;
  const TensorFact& x = context.in(0);
  context.out(0).dtype = x.dtype;
  copy_shape(x, context.out(0));
  if (!x.has_shape) return true;
  int axis = 0;
  if (!context.normalise_axis(context.node().int_attribute("axis", -1), x.rank, &axis)) return false;
  for (int i = 1; i < context.inputs(); ++i) {
    if (context.has(i) && !expect_trailing(context, i, axis)) return false;
  }
  write_statistics(context, axis, 1, 2);
  return true;
}

bool simplified_layer_norm(InferContext& context) {
  if (!layer_norm(context)) return false;
  const TensorFact& x = context.in(0);
  int axis = 0;
  if (!x.has_shape || !context.normalise_axis(context.node().int_attribute("axis", -1), x.rank, &axis))
    return !x.has_shape;
  return axis == x.rank - 1 || context.fail(fmt::format("axis {} is not supported, expected the last", axis));
}

bool skip_simplified_layer_norm(InferContext& context) {
  for (int i = 0; i < context.inputs(); ++i) {
    if (context.has(i) && !context.expect_dtype(i, {DType::f32})) return false;
  }
  if (!context.expect_rank(0, 2, 3)) return false;
  const TensorFact &x = context.in(0), &skip = context.in(1);
  for (int output : {0, 3}) {
    context.out(output).dtype = x.dtype;
    copy_shape(x, context.out(output));
  }
  if (!x.has_shape) return true;
  if (skip.has_shape) {
    bool same = skip.rank == x.rank;
    for (int i = 0; same && i < x.rank; ++i) {
      const Extent a = x.dims[size_t(i)], b = skip.dims[size_t(i)];
      same = !a.known() || !b.known() || a.value == b.value;
    }
    if (!same) {
      return context.fail(fmt::format("skip of shape {}, expected {}", skip.shape_text(context.symbols()),
                                      x.shape_text(context.symbols())));
    }
  }
  for (int i = 2; i < context.inputs(); ++i) {
    if (context.has(i) && !expect_trailing(context, i, x.rank - 1)) return false;
  }
  write_statistics(context, x.rank - 1, 1, 2);
  return true;
}

}  // namespace ompipe::model::rules
