#include "ompipe/kernels/tuning.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace ompipe::kernels {
namespace {

struct Field {
  const char* name;
  int64_t Tuning::* member;
  int64_t least, most, step;
  const char* expected;
};

constexpr Field kFields[] = {
    {"tile-us", &Tuning::tile_us, 1, 10'000, 1, "tile-us must be 1 to 10000"},
    {"rows", &Tuning::rows, 24, 192, 6, "rows must be a multiple of 6 from 24 to 192"},
    {"quantised-bytes", &Tuning::quantised_bytes, 4096, 1 << 30, 1, "quantised-bytes must be 4096 to 1G"},
    {"strip-k", &Tuning::strip_k, 64, 4096, 32, "strip-k must be a multiple of 32 from 64 to 4096"},
};

bool holds(const Field& field, int64_t value) {
  return value >= field.least && value <= field.most && value % field.step == 0;
}

const Field* field_of(std::string_view name) {
  const Field* const found = std::ranges::find(kFields, name, &Field::name);
  return found != std::end(kFields) ? found : nullptr;
}

}  // namespace

Tuning tuning_for(int64_t l2_bytes) {
  Tuning tuning;
  if (l2_bytes <= 0) return tuning;
  tuning.quantised_bytes = std::clamp<int64_t>(l2_bytes / 2, 64 << 10, 1 << 30);
  // 16 columns of a strip take at most 5/16 of L2.
  constexpr int64_t kBytesOfK = 64;
  tuning.strip_k = std::clamp<int64_t>(l2_bytes * 5 / 16 / kBytesOfK / 32 * 32, 256, tuning.strip_k);
  return tuning;
}

Tuning tuning_of_this_cpu() {
  static const int64_t l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return tuning_for(l2_bytes);
}

const char* set_tuning(Tuning& tuning, std::string_view name, int64_t value) {
  const Field* const field = field_of(name);
  if (field == nullptr) return "the names are tile-us, rows, quantised-bytes and strip-k";
  if (!holds(*field, value)) return field->expected;
  tuning.*field->member = value;
  return nullptr;
}

const char* tuning_error(const Tuning& tuning) {
  const Field* const wrong =
      std::ranges::find_if(kFields, [&](const Field& field) { return !holds(field, tuning.*field.member); });
  return wrong != std::end(kFields) ? wrong->expected : nullptr;
}

const char* tuning_name(int index) {
  return index >= 0 && index < static_cast<int>(std::size(kFields)) ? kFields[index].name : nullptr;
}

std::optional<int64_t> tuning_value(const Tuning& tuning, std::string_view name) {
  const Field* const field = field_of(name);
  return field != nullptr ? std::optional(tuning.*field->member) : std::nullopt;
}

}  // namespace ompipe::kernels
