#include "ompipe/model/shape_binder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "facts.h"
#include "infer_flow.h"

namespace ompipe::model {
namespace {

Error misfit(const std::string& input, std::string reason) {
  return {.kind = ErrorKind::usage, .phase = "bind", .subject = input, .reason = std::move(reason)};
}

std::string dims_text(std::span<const int64_t> dims) { return shape_text(Shape(dims.begin(), dims.end())); }

// One element of a caller's integer tensor.
int64_t element_at(const void* contents, DType dtype, size_t index) {
  const auto* bytes = static_cast<const uint8_t*>(contents) + index * dtype_bytes(dtype);
  if (dtype == DType::i64) {
    int64_t number;
    std::memcpy(&number, bytes, sizeof number);
    return number;
  }
  int32_t number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

}  // namespace

ShapeBinder::ShapeBinder(const ResolvedModel& model)
    : model_(model),
      facts_(model.values().size()),
      dims_(model.values().size() * kMaxRank),
      elements_(model.values().size()),
      known_(model.values().size()) {
  for (size_t i = 0; i < facts_.size(); ++i) {
    const Value& value = model.value(ValueId(i));
    if (value.source == ValueSource::node || value.source == ValueSource::body_input) continue;
    facts_[i] = fact_of_shape(value.dtype, value.shape, value.has_shape, nullptr);
    if (value.constant != kNone) set_contents(model.constants()[size_t(value.constant)], fixed_pool_, facts_[i]);
    finish(ValueId(i));
  }
  for (const Port& port : model.inputs()) {
    defaults_.push_back(facts_[size_t(port.value)]);
    std::vector<InputDim> dims;
    for (const Dim& dim : port.shape) {
      InputDim wanted{.number = dim.value.value_or(kNone), .symbol = kNone};
      if (!dim.value && !dim.symbol.empty()) {
        const auto place =
            std::find_if(symbols_.begin(), symbols_.end(), [&](const Symbol& s) { return s.name == dim.symbol; });
        wanted.symbol = int32_t(place - symbols_.begin());
        if (place == symbols_.end()) symbols_.push_back({.name = dim.symbol});
      }
      dims.push_back(wanted);
    }
    input_dims_.push_back(std::move(dims));
  }
}

Status ShapeBinder::bind_input(size_t index, const BoundInput& input) {
  const Port& port = model_.inputs()[index];
  TensorFact& fact = facts_[size_t(port.value)];
  if (input.dtype == DType::undefined) {
    if (model_.value(port.value).source != ValueSource::overridable) return misfit(port.name, "input is not fed");
    fact = defaults_[index];
    return ok_status();
  }
  if (input.dtype != port.dtype) {
    return misfit(port.name, fmt::format("input is {}, expected {}", dtype_name(input.dtype), dtype_name(port.dtype)));
  }
  const std::vector<InputDim>& wanted = input_dims_[index];
  if ((port.has_shape && input.dims.size() != wanted.size()) || input.dims.size() > size_t(kMaxRank)) {
    return misfit(port.name,
                  fmt::format("{} input has shape {}, expected {}", dtype_name(port.dtype), dims_text(input.dims),
                              port.has_shape ? shape_text(port.shape) : fmt::format("rank up to {}", kMaxRank)));
  }
  fact.dtype = input.dtype;
  fact.has_shape = true;
  fact.rank = uint8_t(input.dims.size());
  fact.contents = nullptr;
  fact.content_count = 0;
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const int64_t size = input.dims[i];
    fact.dims[i] = {size};
    if (size < 0) return misfit(port.name, fmt::format("negative dimension in shape {}", dims_text(input.dims)));
    if (!port.has_shape) continue;
    if (wanted[i].number != kNone && wanted[i].number != size) {
      return misfit(port.name, fmt::format("{} input has shape {}, expected {}: dimension {} is {}, expected {}",
                                           dtype_name(port.dtype), dims_text(input.dims), shape_text(port.shape), i,
                                           size, wanted[i].number));
    }
    if (wanted[i].symbol == kNone) continue;
    Symbol& symbol = symbols_[size_t(wanted[i].symbol)];
    if (symbol.size != kNone && symbol.size != size) {
      return misfit(port.name, fmt::format("{} input has shape {}: {} is {}, expected {} as in input {}",
                                           dtype_name(port.dtype), dims_text(input.dims), symbol.name, size,
                                           symbol.size, model_.inputs()[size_t(symbol.from)].name));
    }
    if (symbol.size == kNone) symbol.from = int32_t(index);
    symbol.size = size;
  }
  const Extent count = fact.count();
  if (!count.known() || count.value > kMaxElements)
    return misfit(port.name, "shape " + dims_text(input.dims) + " is too large");
  follow(fact, input.contents, pool_);
  return ok_status();
}

// Integers of shapes, axes and lengths only.
void ShapeBinder::follow(TensorFact& fact, const void* contents, ContentsPool& pool) {
  const Extent count = fact.count();
  const bool followed = contents && (fact.dtype == DType::i64 || fact.dtype == DType::i32);
  if (!followed || !count.known() || count.value > int64_t(kMaxFollowedElements)) return;
  Extent* items = pool.take(size_t(count.value));
  for (size_t i = 0; i < size_t(count.value); ++i) items[i] = {element_at(contents, fact.dtype, i)};
  fact.contents = items;
  fact.content_count = uint32_t(count.value);
}

Status ShapeBinder::infer(NodeId id, std::span<const FoundValue> inputs) {
  forget();
  for (const FoundValue& input : inputs) {
    TensorFact& fact = facts_[size_t(input.value)];
    fact.has_shape = true;
    fact.rank = uint8_t(input.dims.size());
    for (size_t i = 0; i < input.dims.size(); ++i) fact.dims[i] = {input.dims[i]};
    if (fact.contents) continue;
    follow(fact, input.contents, found_pool_);
    if (fact.contents) found_.push_back(input.value);
  }
  InferContext context(facts_.data(), nullptr, found_pool_);
  const Node& node = model_.node(id);
  if (!context.run(node)) {
    return Error{.kind = ErrorKind::bad_model,
                 .phase = "run",
                 .subject = node.name,
                 .reason = fmt::format("{}: {}", node.op_type, context.reason())};
  }
  for (ValueId output : node.outputs) {
    if (output == kNone) continue;
    facts_[size_t(output)].contents = nullptr;
    facts_[size_t(output)].content_count = 0;
    finish(output);
  }
  return ok_status();
}

void ShapeBinder::forget() {
  for (ValueId id : found_) {
    facts_[size_t(id)].contents = nullptr;
    facts_[size_t(id)].content_count = 0;
  }
  found_.clear();
  found_pool_.reset();
}

Status ShapeBinder::bind(std::span<const BoundInput> inputs) {
  OMPIPE_CHECK(inputs.size() == model_.inputs().size(), "one BoundInput for each input");
  pool_.reset();
  for (Symbol& symbol : symbols_) symbol.size = symbol.from = kNone;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (Status bound = bind_input(i, inputs[i]); !bound) return bound;
    finish(model_.inputs()[i].value);
  }
  InferContext context(facts_.data(), nullptr, pool_);
  FlowInference inference(context, facts_.data(), model_.nodes(), model_.graphs(), model_.values());
  if (const NodeId wrong = inference.run(0, NodeId(model_.nodes().size())); wrong != kNone) {
    const Node& node = model_.node(wrong);
    return Error{.kind = ErrorKind::usage,
                 .phase = "bind",
                 .subject = node.name,
                 .reason = fmt::format("these input shapes don't fit: {}: {}", node.op_type, context.reason())};
  }
  for (const Subgraph& graph : model_.graphs()) {
    for (ValueId input : graph.inputs) finish(input);
  }
  for (const Node& node : model_.nodes()) {
    for (ValueId output : node.outputs) {
      if (output != kNone) finish(output);
    }
  }
  return ok_status();
}

void ShapeBinder::finish(ValueId id) {
  const TensorFact& fact = facts_[size_t(id)];
  const Extent count = fact.count();
  known_[size_t(id)] = count.known();
  elements_[size_t(id)] = count.known() ? count.value : 0;
  for (int i = 0; i < fact.rank; ++i) dims_[size_t(id) * kMaxRank + size_t(i)] = fact.dims[size_t(i)].value;
}

std::span<const Extent> ShapeBinder::contents(ValueId id) const {
  const TensorFact& fact = facts_[size_t(id)];
  if (!fact.contents_known()) return {};
  return {fact.contents, fact.content_count};
}

int64_t ShapeBinder::symbol_size(std::string_view symbol) const {
  for (const Symbol& known : symbols_) {
    if (known.name == symbol) return known.size;
  }
  return kNone;
}

}  // namespace ompipe::model
