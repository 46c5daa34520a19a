#include "row_fetches.h"

#include <algorithm>

namespace ompipe::session {
namespace {

const exec::HeldTensor* input_of(const exec::RuntimeContext& context, const std::string& name) {
  for (const exec::NamedTensor& input : context.inputs) {
    if (input.name == name) return &input.tensor;
  }
  return nullptr;
}

std::vector<uint64_t> slices_of(const model::Payload& payload, const exec::Tensor& indices) {
  std::vector<uint64_t> slices;
  const int64_t rows = payload.dims.empty() ? 0 : payload.dims[0];
  if (rows == 0) return slices;
  const uint64_t row_bytes = payload.length / uint64_t(rows);
  for (int64_t i = 0; i < indices.elements(); ++i) {
    int64_t row = exec::int_at(indices, i);
    if (row < 0) row += rows;
    if (row < 0 || row >= rows) continue;
    const uint64_t first = uint64_t(row) * row_bytes / io::kSliceBytes;
    const uint64_t last = ((uint64_t(row) + 1) * row_bytes - 1) / io::kSliceBytes;
    for (uint64_t slice = first; slice <= last; ++slice) slices.push_back(slice);
  }
  std::sort(slices.begin(), slices.end());
  slices.erase(std::unique(slices.begin(), slices.end()), slices.end());
  return slices;
}

}  // namespace

std::vector<RowFetch> row_fetches(const plan::PreparedExecutionPlan& plan, Verify verify,
                                  const exec::RuntimeContext& context) {
  std::vector<RowFetch> fetches;
  for (plan::SegmentId segment = 0; segment < plan::SegmentId(plan.segments.size()); ++segment) {
    for (const plan::RowAccess& access : plan.segments[size_t(segment)].rows) {
      const model::Payload& payload = plan.main_payload(access.object);
      const bool hashed = !payload.slice_hashes.empty();
      const exec::HeldTensor* const indices = input_of(context, plan.model->value(access.indices).name);
      if (!indices || (!hashed && verify != Verify::never)) continue;
      RowFetch fetch;
      fetch.segment = segment;
      fetch.object = access.object;
      fetch.slices = slices_of(payload, indices->view);
      for (size_t i = 0; verify != Verify::never && i < fetch.slices.size(); ++i) {
        Result<io::Hash128> hash = io::parse_hash(payload.slice_hashes[size_t(fetch.slices[i])]);
        OMPIPE_CHECK(hash.ok(), "the model layer checks slice hashes");
        fetch.hashes.push_back(*hash);
      }
      if (!fetch.slices.empty()) fetches.push_back(std::move(fetch));
    }
  }
  return fetches;
}

}  // namespace ompipe::session
