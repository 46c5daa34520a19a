#include "ompipe/model/resolved_model.h"

#include <fmt/format.h>

namespace ompipe::model {
namespace {

const char* reason_text(AvoidedReason reason) {
  switch (reason) {
    case AvoidedReason::dead:
      return "dead";
    case AvoidedReason::superseded:
      return "superseded";
    case AvoidedReason::companion:
      return "replaced by the companion";
    case AvoidedReason::branch:
      return "in a branch that isn't taken";
    case AvoidedReason::none:
      break;
  }
  return "not needed";
}

int32_t index_of(const std::vector<Port>& ports, std::string_view name) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return int32_t(i);
  }
  return kNone;
}

}  // namespace

uint64_t ResolvedModel::source_bytes() const {
  uint64_t bytes = 0;
  for (const ManifestEntry& entry : data_.manifest) {
    if (entry.state == ManifestState::active) bytes += payload(entry.payload).length;
  }
  return bytes;
}

Result<const Payload*> ResolvedModel::readable(PayloadId id) const {
  OMPIPE_CHECK(id >= 0 && size_t(id) < data_.payloads.size(), "no such payload");
  const ManifestEntry& entry = data_.manifest[size_t(id)];
  const Payload& wanted = payload(id);
  if (entry.state == ManifestState::active) return &wanted;
  const char* state = entry.state == ManifestState::dormant ? "dormant" : reason_text(entry.avoided);
  return Error{.kind = ErrorKind::bad_model,
               .phase = "manifest",
               .subject = wanted.name,
               .reason = fmt::format("read of a payload that is not active: {} ({})", state, entry.why),
               .file = data_.files[size_t(wanted.file)].path,
               .offset = wanted.offset,
               .length = wanted.length};
}

int32_t ResolvedModel::input_index(std::string_view name) const { return index_of(data_.inputs, name); }
int32_t ResolvedModel::output_index(std::string_view name) const { return index_of(data_.outputs, name); }

}  // namespace ompipe::model
