#include "ompipe/store/slice_hashes.h"

#include <fmt/format.h>

namespace ompipe::store {

SliceHashes::SliceHashes(const plan::PreparedExecutionPlan& plan, const plan::PreparedObject& object) {
  for (const plan::Source& source : object.sources) {
    hashes_.emplace_back(io::slice_count(plan.model->payload(source.payload).length));
  }
}

Status SliceHashes::verify(const plan::PreparedExecutionPlan& plan, const plan::PreparedObject& object) const {
  for (size_t i = 0; i < object.sources.size(); ++i) {
    const model::Payload& payload = plan.model->payload(object.sources[i].payload);
    if (payload.digest.empty()) continue;
    const std::string found = io::format_digest(io::fold(hashes_[i]));
    if (found == payload.digest) continue;
    return Error{.kind = ErrorKind::bad_model,
                 .phase = "digest",
                 .subject = payload.name,
                 .reason = fmt::format("expected {}, found {}", payload.digest, found),
                 .file = plan.model->files()[size_t(payload.file)].path,
                 .offset = payload.offset,
                 .length = payload.length};
  }
  return ok_status();
}

}  // namespace ompipe::store
