// The bind of a context that differs from the last one in addresses only: nothing is inferred, placed or measured.
#include <algorithm>
#include <cstring>

#include "frame_state.h"

namespace ompipe::exec {
namespace {

bool same_dims(const kernels::Layout& a, const kernels::Layout& b) {
  return a.rank == b.rank && std::equal(a.dims.begin(), a.dims.begin() + a.rank, b.dims.begin());
}

bool same_tensor(const FrameState& state, const NamedTensor& given, int32_t input) {
  const Tensor &now = given.tensor.view, &before = state.inputs[size_t(input)];
  return given.name == state.model().inputs()[size_t(input)].name && now.dtype == before.dtype &&
         same_dims(now.layout, before.layout) && now.contiguous() && (now.data != nullptr || now.elements() == 0);
}

bool same_cache(const FrameState& state, const KvBinding& given, const Cache& before) {
  return given.past == state.model().inputs()[size_t(before.input)].name &&
         given.present == state.model().outputs()[size_t(before.output)].name && given.batch == before.batch &&
         given.heads == before.heads && given.capacity == before.capacity && given.head_size == before.head_size &&
         given.length == before.length && given.memory.bytes >= before.needed_bytes;
}

bool same_form(const FrameState& state, const RuntimeContext& context) {
  if (!state.is_bound || context.inputs.size() != state.given.size() || context.caches.size() != state.caches.size() ||
      context.wanted.size() != state.asked.size())
    return false;
  for (size_t i = 0; i < state.given.size(); ++i) {
    if (!same_tensor(state, context.inputs[i], state.given[i])) return false;
  }
  for (size_t i = 0; i < state.caches.size(); ++i) {
    if (!same_cache(state, context.caches[i], state.caches[i])) return false;
  }
  for (size_t i = 0; i < state.asked.size(); ++i) {
    if (context.wanted[i] != state.model().outputs()[size_t(state.asked[i])].name) return false;
  }
  return true;
}

// How much is known of all values but the input itself.
size_t known_facts(const FrameState& state, model::ValueId input) {
  size_t known = 0;
  for (size_t i = 0; i < state.values.size(); ++i) {
    if (model::ValueId(i) == input) continue;
    known += size_t(state.shapes.known(model::ValueId(i))) + state.shapes.contents(model::ValueId(i)).size();
  }
  return known;
}

// What is inferred without the contents holds for any contents. If it is no less than with them, they don't matter.
Bearing find_bearing(FrameState& state, int32_t input) {
  const model::ValueId value = state.model().inputs()[size_t(input)].value;
  model::BoundInput& bound = state.bound[size_t(input)];
  const size_t with = known_facts(state, value);
  const void* const contents = std::exchange(bound.contents, nullptr);
  const bool fits = state.shapes.bind(state.bound).ok();
  const bool same = fits && known_facts(state, value) == with;
  bound.contents = contents;
  OMPIPE_CHECK(state.shapes.bind(state.bound).ok(), "what was bound can't be bound again");
  return same ? Bearing::none : Bearing::some;
}

bool contents_fit(FrameState& state, const Tensor& now, int32_t input) {
  if (state.bound[size_t(input)].contents == nullptr) return true;
  std::byte* const before = state.followed.data() + size_t(input) * kFollowedBytes;
  if (std::memcmp(before, now.data, now.bytes()) == 0) return true;
  Bearing& bearing = state.bearing[size_t(input)];
  if (bearing == Bearing::unasked) bearing = find_bearing(state, input);
  if (bearing == Bearing::some) return false;
  std::memcpy(before, now.data, now.bytes());
  return true;
}

void point_to(FrameState& state, std::byte*& place, std::byte* data) {
  if (place == data) return;
  place = data;
  state.moved = true;
}

}  // namespace

bool rebind(FrameState& state, const RuntimeContext& context) {
  if (!same_form(state, context)) {
    std::fill(state.bearing.begin(), state.bearing.end(), Bearing::unasked);
    return false;
  }
  for (size_t i = 0; i < state.given.size(); ++i) {
    if (!contents_fit(state, context.inputs[i].tensor.view, state.given[i])) return false;
  }
  for (size_t i = 0; i < state.given.size(); ++i) {
    point_to(state, state.inputs[size_t(state.given[i])].data, context.inputs[i].tensor.view.data);
  }
  for (size_t i = 0; i < state.caches.size(); ++i) {
    Cache& cache = state.caches[i];
    point_to(state, cache.data, context.caches[i].memory.data);
    point_to(state, state.inputs[size_t(cache.input)].data, cache.data);
  }
  return true;
}

}  // namespace ompipe::exec
