#include <optional>

#include "c_layout.h"

using namespace ompipe::kernels;

namespace ompipe::kernels::c {

const Tuning* made_tuning(const ompipe_tuning* tuning) {
  if (tuning == nullptr || !is_aligned(tuning, alignof(ompipe_tuning))) return nullptr;
  return tuning->mark == ompipe_tuning::kMark ? &tuning->tuning : nullptr;
}

}  // namespace ompipe::kernels::c

ompipe_size ompipe_tuning_size(void) noexcept { return {sizeof(ompipe_tuning), alignof(ompipe_tuning)}; }

ompipe_status ompipe_tuning_init(ompipe_tuning* tuning, size_t tuning_bytes, const char** reason) noexcept {
  const ompipe_status status = c::check_place(tuning, tuning_bytes, reason);
  if (status == OMPIPE_OK) ::new (tuning) ompipe_tuning{ompipe_tuning::kMark, tuning_of_this_cpu()};
  return status;
}

const char* ompipe_tuning_name(int32_t index) noexcept { return tuning_name(index); }

ompipe_status ompipe_tuning_get(const ompipe_tuning* tuning, const char* name, int64_t* value,
                                const char** reason) noexcept {
  const Tuning* const made = c::made_tuning(tuning);
  if (made == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, c::kNoTuning);
  if (name == nullptr || value == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "name or value is null");
  const std::optional<int64_t> found = tuning_value(*made, name);
  if (!found) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "the names are those of ompipe_tuning_name");
  *value = *found;
  return c::done(reason);
}

ompipe_status ompipe_tuning_set(ompipe_tuning* tuning, const char* name, int64_t value, const char** reason) noexcept {
  if (c::made_tuning(tuning) == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, c::kNoTuning);
  if (name == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "the name is null");
  const char* const expected = set_tuning(tuning->tuning, name, value);
  return expected == nullptr ? c::done(reason) : c::fail(OMPIPE_INVALID_ARGUMENT, reason, expected);
}
