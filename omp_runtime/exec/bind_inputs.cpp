#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "frame_state.h"

namespace ompipe::exec {
namespace {

using model::DType;

Error refused(const std::string& subject, std::string reason) {
  return {.kind = ErrorKind::usage, .phase = "bind", .subject = subject, .reason = std::move(reason)};
}

std::string input_names(const model::ResolvedModel& model) {
  std::string names;
  for (const model::Port& port : model.inputs()) names += (names.empty() ? "" : ", ") + port.name;
  return names;
}

// The index of an input that was not given before.
Result<size_t> claim_input(const FrameState& state, const std::string& name) {
  const int32_t index = state.model().input_index(name);
  if (index == kNone) {
    return refused(name, fmt::format("the model has no such input; its inputs are {}", input_names(state.model())));
  }
  if (state.bound[size_t(index)].dtype != DType::undefined) return refused(name, "given twice");
  return size_t(index);
}

Status bind_tensor(FrameState& state, const NamedTensor& given) {
  const Result<size_t> index = claim_input(state, given.name);
  if (!index) return index.error();
  const Tensor& view = given.tensor.view;
  const model::Port& port = state.model().inputs()[*index];
  if (view.dtype != port.dtype) {
    return refused(given.name, fmt::format("expected dtype {}, got {}", model::dtype_name(port.dtype),
                                           model::dtype_name(view.dtype)));
  }
  if (!view.contiguous()) return refused(given.name, "expected a row-major tensor, got one with gaps");
  if (view.data == nullptr && view.elements() != 0) return refused(given.name, "expected elements, got none");
  state.inputs[*index] = view;
  state.given.push_back(int32_t(*index));
  model::BoundInput& bound = state.bound[*index];
  bound.dtype = view.dtype;
  bound.dims = state.inputs[*index].shape();
  if (model::is_integer(view.dtype) && view.elements() <= int64_t(model::kMaxFollowedElements)) {
    std::byte* const followed = state.followed.data() + *index * kFollowedBytes;
    if (view.elements() > 0) std::memcpy(followed, view.data, view.bytes());
    bound.contents = followed;
  }
  return ok_status();
}

// The attention that appends to the cache: reads `past` as its input 3 or 4 and gives `present` as its output 1 or 2.
bool appends(const model::ResolvedModel& model, model::ValueId past, model::ValueId present) {
  const model::NodeId producer = model.value(present).producer;
  if (producer == model::kNone) return false;
  const model::Node& node = model.node(producer);
  if (node.kind() != model::OpKind::group_query_attention) return false;
  for (size_t part = 0; part < 2; ++part) {
    if (node.inputs.size() > 3 + part && node.inputs[3 + part] == past && node.outputs.size() > 1 + part &&
        node.outputs[1 + part] == present) {
      return true;
    }
  }
  return false;
}

Status bind_cache(FrameState& state, const KvBinding& given, Cache& cache) {
  const Result<size_t> index = claim_input(state, given.past);
  if (!index) return index.error();
  const int32_t output = state.model().output_index(given.present);
  if (output == kNone) return refused(given.present, "the model has no such output for a cache");
  const model::Port& port = state.model().inputs()[*index];
  cache = {.data = given.memory.data,
           .past = port.value,
           .present = state.model().outputs()[size_t(output)].value,
           .input = int32_t(*index),
           .output = output,
           .batch = given.batch,
           .heads = given.heads,
           .capacity = given.capacity,
           .head_size = given.head_size,
           .length = given.length};
  if (!appends(state.model(), cache.past, cache.present)) {
    return refused(given.past, fmt::format("no attention appends to it and gives {}", given.present));
  }
  if (given.batch < 0 || given.heads < 0 || given.head_size < 0 || given.length < 0 || given.length > given.capacity) {
    return refused(given.past, fmt::format("cache of length {} and capacity {}", given.length, given.capacity));
  }
  cache.needed_bytes = uint64_t(given.batch) * uint64_t(given.heads) * uint64_t(given.capacity) *
                       uint64_t(given.head_size) * model::dtype_bytes(port.dtype);
  if (given.memory.bytes < cache.needed_bytes) {
    return refused(given.past, fmt::format("cache of {} bytes, expected {}", given.memory.bytes, cache.needed_bytes));
  }
  Tensor& view = state.inputs[*index];
  const int64_t dims[] = {given.batch, given.heads, given.capacity, given.head_size};
  view = make_tensor(port.dtype, dims, given.memory.data);
  view.layout.dims[2] = given.length;
  state.bound[*index] = {port.dtype, view.shape(), nullptr};
  return ok_status();
}

bool is_fed(const FrameState& state, model::ValueId value) {
  const auto& ports = state.model().inputs();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].value == value) return state.bound[i].dtype != DType::undefined;
  }
  return false;
}

Status choose_outputs(FrameState& state, const RuntimeContext& context) {
  std::fill(state.wanted.begin(), state.wanted.end(), uint8_t(context.wanted.empty()));
  for (const std::string& name : context.wanted) {
    const int32_t index = state.model().output_index(name);
    if (index == kNone) return refused(name, "the model has no such output");
    state.wanted[size_t(index)] = 1;
    state.asked.push_back(index);
  }
  return ok_status();
}

// Bytes of an initializer belong to the prepared store: they can't leave the runtime as an output.
Status check_outputs(const FrameState& state) {
  for (size_t i = 0; i < state.wanted.size(); ++i) {
    const model::Port& port = state.model().outputs()[i];
    const model::ValueSource source = state.model().value(port.value).source;
    const bool fed = source == model::ValueSource::overridable && is_fed(state, port.value);
    if (!state.wanted[i] || source == model::ValueSource::node || fed) continue;
    if (source == model::ValueSource::initializer || source == model::ValueSource::overridable) {
      return Error{.kind = ErrorKind::bad_model,
                   .phase = "bind",
                   .subject = port.name,
                   .reason = "an initializer as an output isn't supported"};
    }
  }
  return ok_status();
}

// Nothing may read a cache but the attention that appends to it, or something that takes its strides.
Status check_cache_uses(const FrameState& state, const KvBinding& given, const Cache& cache) {
  const int64_t appended = state.shapes.known(cache.present) ? state.shapes.shape(cache.present)[2] : 0;
  if (appended > given.capacity) {
    return refused(given.past, fmt::format("cache of capacity {}, expected at least {}", given.capacity, appended));
  }
  if (!state.takes_views[size_t(cache.past)] || !state.takes_views[size_t(cache.present)]) {
    return refused(given.past, "an operator other than the attention needs it dense; feed it as a tensor");
  }
  return ok_status();
}

}  // namespace

Status bind_inputs(FrameState& state, const RuntimeContext& context) {
  std::fill(state.bound.begin(), state.bound.end(), model::BoundInput{});
  state.given.clear();
  state.asked.clear();
  for (const NamedTensor& given : context.inputs) {
    if (Status status = bind_tensor(state, given); !status) return status;
  }
  state.caches.resize(context.caches.size());
  for (size_t i = 0; i < context.caches.size(); ++i) {
    if (Status status = bind_cache(state, context.caches[i], state.caches[i]); !status) return status;
  }
  if (Status status = choose_outputs(state, context); !status) return status;
  if (Status status = check_outputs(state); !status) return status;
  if (Status status = state.shapes.bind(state.bound); !status) return status;
  for (size_t i = 0; i < context.caches.size(); ++i) {
    if (Status status = check_cache_uses(state, context.caches[i], state.caches[i]); !status) return status;
  }
  return ok_status();
}

}  // namespace ompipe::exec
