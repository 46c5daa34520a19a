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

// Adds the slices of one source whose `rows` rows these indices name.
void add_slices(size_t source, uint64_t length, int64_t rows, const exec::Tensor& indices,
                std::vector<RowFetch::Slice>& slices) {
  std::vector<uint64_t> found;
  const uint64_t row_bytes = length / uint64_t(rows);
  for (int64_t i = 0; i < indices.elements(); ++i) {
    int64_t row = exec::int_at(indices, i);
    if (row < 0) row += rows;
    if (row < 0 || row >= rows) continue;
    const uint64_t first = uint64_t(row) * row_bytes / io::kSliceBytes;
    const uint64_t last = ((uint64_t(row) + 1) * row_bytes - 1) / io::kSliceBytes;
    for (uint64_t slice = first; slice <= last; ++slice) found.push_back(slice);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (uint64_t slice : found) slices.push_back({source, slice});
}

std::vector<io::Hash128> hashes_of(const plan::PreparedExecutionPlan& plan, const RowFetch& fetch) {
  std::vector<io::Hash128> hashes;
  for (const RowFetch::Slice& slice : fetch.slices) {
    const model::Payload& payload = plan.source_payload(fetch.object, slice.source);
    Result<io::Hash128> hash = io::parse_hash(payload.slice_hashes[size_t(slice.index)]);
    OMPIPE_CHECK(hash.ok(), "the model layer checks slice hashes");
    hashes.push_back(*hash);
  }
  return hashes;
}

}  // namespace

std::vector<RowFetch> row_fetches(const plan::PreparedExecutionPlan& plan, Verify verify,
                                  const exec::RuntimeContext& context) {
  std::vector<RowFetch> fetches;
  for (plan::SegmentId segment = 0; segment < plan::SegmentId(plan.segments.size()); ++segment) {
    for (const plan::RowAccess& access : plan.segments[size_t(segment)].rows) {
      const exec::HeldTensor* const indices = input_of(context, plan.model->value(access.indices).name);
      if (!indices) continue;
      RowFetch fetch;
      fetch.segment = segment;
      fetch.object = access.object;
      bool hashed = true;
      const size_t sources = plan.objects[size_t(access.object)].sources.size();
      for (size_t source = 0; source < sources; ++source) {
        const model::Payload& payload = plan.source_payload(access.object, source);
        hashed = hashed && !payload.slice_hashes.empty();
        add_slices(source, payload.length, access.rows, indices->view, fetch.slices);
      }
      if (fetch.slices.empty() || (!hashed && verify != Verify::never)) continue;
      if (verify != Verify::never) fetch.hashes = hashes_of(plan, fetch);
      fetches.push_back(std::move(fetch));
    }
  }
  return fetches;
}

}  // namespace ompipe::session
