#include "ompipe/model/infer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ompipe/arenas/error.h"

namespace ompipe::model {

bool TensorFact::shape_known() const {
  return has_shape && std::all_of(dims.begin(), dims.begin() + rank, [](const Extent& dim) { return dim.known(); });
}

bool TensorFact::contents_known() const {
  return contents && std::all_of(contents, contents + content_count, [](const Extent& item) { return item.known(); });
}

Extent TensorFact::count() const {
  if (!shape_known()) return unknown_extent();
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    if (__builtin_mul_overflow(count, dims[size_t(i)].value, &count)) return unknown_extent();
  }
  return {count};
}

std::string TensorFact::shape_text(const SymbolTable* symbols) const {
  if (!has_shape) return "[unknown rank]";
  std::string text = "[";
  for (int i = 0; i < rank; ++i) {
    const Extent dim = dims[size_t(i)];
    if (i) text += ", ";
    text += dim.known() ? std::to_string(dim.value) : symbols ? symbols->text(dim) : "?";
  }
  return text + "]";
}

Extent SymbolTable::intern(std::string_view name) {
  auto [place, fresh] = ids_.try_emplace(std::string(name), int32_t(names_.size()) + 1);
  if (fresh) names_.emplace_back(name);
  return {0, place->second};
}

std::string SymbolTable::text(Extent extent) const {
  if (extent.known()) return std::to_string(extent.value);
  return extent.symbol == Extent::kUnknown ? "?" : name(extent.symbol);
}

Extent* ContentsPool::take(size_t count) {
  OMPIPE_CHECK(count <= kBlock);
  if (used_ + count > kBlock) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) blocks_.push_back(std::make_unique<Extent[]>(kBlock));
  Extent* items = blocks_[block_].get() + used_;
  used_ += count;
  return items;
}

bool InferContext::run(const Node& node) {
  node_ = &node;
  reason_.clear();
  for (ValueId id : node.outputs) {
    if (id == kNone) continue;
    TensorFact& fact = facts_[id];
    fact.dtype = DType::undefined;
    fact.has_shape = false;
    fact.rank = 0;
    fact.contents = nullptr;
    fact.content_count = 0;
  }
  if (!node.spec->infer(*this)) return false;
  for (ValueId id : node.outputs) {
    if (id == kNone || !facts_[id].has_shape) continue;
    const TensorFact& fact = facts_[id];
    for (int i = 0; i < fact.rank; ++i) {
      if (fact.dims[size_t(i)].known() && fact.dims[size_t(i)].value < 0) {
        return fail(fmt::format("output would have shape {}", fact.shape_text(symbols_)));
      }
    }
    const Extent count = fact.count();
    if (fact.shape_known() && (!count.known() || count.value > kMaxElements)) {
      return fail(fmt::format("output of shape {} has too many elements", fact.shape_text(symbols_)));
    }
  }
  return true;
}

bool InferContext::has(int input) const { return input < inputs() && node_->inputs[size_t(input)] != kNone; }

const TensorFact& InferContext::in(int input) const {
  OMPIPE_CHECK(has(input));
  return facts_[node_->inputs[size_t(input)]];
}

TensorFact& InferContext::out(int output) {
  if (output < outputs() && node_->outputs[size_t(output)] != kNone) return facts_[node_->outputs[size_t(output)]];
  scratch_ = TensorFact();
  return scratch_;
}

bool InferContext::fail(std::string reason) {
  reason_ = std::move(reason);
  return false;
}

bool InferContext::expect_dtype(int input, std::initializer_list<DType> allowed) {
  const DType got = in(input).dtype;
  if (std::find(allowed.begin(), allowed.end(), got) != allowed.end()) return true;
  std::string names;
  for (DType type : allowed) names += (names.empty() ? "" : " or ") + std::string(dtype_name(type));
  return fail(fmt::format("input {} is {}, expected {}", input, dtype_name(got), names));
}

bool InferContext::expect_same_dtype(int first, int second) {
  if (in(first).dtype == in(second).dtype) return true;
  return fail(fmt::format("input {} is {}, expected {} as input {}", second, dtype_name(in(second).dtype),
                          dtype_name(in(first).dtype), first));
}

bool InferContext::expect_rank(int input, int lowest, int highest) {
  const TensorFact& fact = in(input);
  if (!fact.has_shape || (fact.rank >= lowest && fact.rank <= highest)) return true;
  return fail(lowest == highest
                  ? fmt::format("input {} has shape {}, expected rank {}", input, fact.shape_text(symbols_), lowest)
                  : fmt::format("input {} has shape {}, expected rank {} to {}", input, fact.shape_text(symbols_),
                                lowest, highest));
}

bool InferContext::expect_dim(int input, int axis, int64_t wanted) {
  const TensorFact& fact = in(input);
  if (!fact.has_shape) return true;
  if (axis >= fact.rank) return expect_rank(input, axis + 1, kMaxRank);
  const Extent got = fact.dims[size_t(axis)];
  if (!got.known() || got.value == wanted) return true;
  return fail(
      fmt::format("input {} has shape {}, expected {} along axis {}", input, fact.shape_text(symbols_), wanted, axis));
}

bool InferContext::normalise_axis(int64_t axis, int rank, int* normalised) {
  if (axis < -rank || axis >= rank) return fail(fmt::format("axis {} of a tensor of rank {}", axis, rank));
  *normalised = int(axis < 0 ? axis + rank : axis);
  return true;
}

Extent InferContext::combine(Extent a, Extent b, char sign) {
  if (!symbols_ || a.symbol == Extent::kUnknown || b.symbol == Extent::kUnknown) return unknown_extent();
  std::string left = symbols_->text(a), right = symbols_->text(b);
  if ((sign == '+' || sign == '*') && right < left) std::swap(left, right);
  constexpr size_t kLongestName = 120;  // beyond it an expression helps nobody
  if (left.size() + right.size() > kLongestName) return unknown_extent();
  return symbols_->intern(fmt::format("({}{}{})", left, sign, right));
}

Extent InferContext::add(Extent a, Extent b) {
  int64_t sum;
  if (a.known() && b.known()) return __builtin_add_overflow(a.value, b.value, &sum) ? unknown_extent() : Extent{sum};
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  return combine(a, b, '+');
}

Extent InferContext::sub(Extent a, Extent b) {
  int64_t difference;
  if (a.known() && b.known()) {
    return __builtin_sub_overflow(a.value, b.value, &difference) ? unknown_extent() : Extent{difference};
  }
  if (b.is(0)) return a;
  if (a == b) return {0};
  return combine(a, b, '-');
}

Extent InferContext::mul(Extent a, Extent b) {
  int64_t product;
  if (a.known() && b.known()) {
    return __builtin_mul_overflow(a.value, b.value, &product) ? unknown_extent() : Extent{product};
  }
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  if (a.is(0) || b.is(0)) return {0};
  return combine(a, b, '*');
}

Extent InferContext::div(Extent a, Extent b) {
  if (a.known() && b.known()) {
    const bool defined = b.value != 0 && !(a.value == INT64_MIN && b.value == -1);
    return defined ? Extent{a.value / b.value} : unknown_extent();
  }
  if (b.is(1)) return a;
  return combine(a, b, '/');
}

bool InferContext::broadcast(Extent a, Extent b, Extent* result) {
  if (a == b || b.is(1)) {
    *result = a;
  } else if (a.is(1)) {
    *result = b;
  } else if (a.known() && b.known()) {
    return false;
  } else {
    // One is a number above 1: the other must be it, or 1.
    *result = a.known() ? a : b.known() ? b : unknown_extent();
  }
  return true;
}

bool InferContext::broadcast_inputs(int first, int last) {
  TensorFact& result = out(0);
  result.has_shape = false;
  int rank = 0;
  for (int i = first; i <= last; ++i) {
    if (!in(i).has_shape) return true;
    rank = std::max<int>(rank, in(i).rank);
  }
  std::array<Extent, kMaxRank> dims;
  dims.fill({1});
  for (int i = first; i <= last; ++i) {
    const TensorFact& fact = in(i);
    for (int axis = 0; axis < fact.rank; ++axis) {
      Extent& merged = dims[size_t(rank - fact.rank + axis)];
      if (!broadcast(merged, fact.dims[size_t(axis)], &merged)) {
        std::string shapes;
        for (int k = first; k <= last; ++k) shapes += (k == first ? "" : " and ") + in(k).shape_text(symbols_);
        return fail(fmt::format("shapes {} don't broadcast", shapes));
      }
    }
  }
  result.has_shape = true;
  result.rank = uint8_t(rank);
  result.dims = dims;
  return true;
}

Integers InferContext::integers(const char* attribute, int input) const {
  Integers result;
  if (const AttributeValue* value = attribute ? node_->attribute(attribute) : nullptr) {
    if (const auto* list = std::get_if<std::vector<int64_t>>(value); list && list->size() <= kMaxFollowedElements) {
      result.given = result.known = true;
      result.count = int(list->size());
      std::copy(list->begin(), list->end(), result.values.begin());
    }
    return result;
  }
  if (input < 0 || !has(input)) return result;
  result.given = true;
  const TensorFact& fact = in(input);
  result.known = fact.contents_known();
  if (!result.known) return result;
  result.count = int(fact.content_count);
  for (int i = 0; i < result.count; ++i) result.values[size_t(i)] = fact.contents[i].value;
  return result;
}

}  // namespace ompipe::model
