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

// Adds the slices of one source that hold the rows which these indices name.
void add_slices(const RowTable& table, size_t at, const exec::Tensor& indices, std::vector<RowFetch::Slice>& slices) {
  const RowTable::Source& source = table.sources[at];
  std::vector<uint64_t> found;
  for (int64_t i = 0; i < indices.elements(); ++i) {
    int64_t row = exec::int_at(indices, i);
    if (row < 0) row += table.rows;
    if (row < 0 || row >= table.rows) continue;
    const uint64_t first = uint64_t(row) * source.row_bytes / io::kSliceBytes;
    const uint64_t last = ((uint64_t(row) + 1) * source.row_bytes - 1) / io::kSliceBytes;
    for (uint64_t slice = first; slice <= last; ++slice) found.push_back(slice);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (uint64_t slice : found) {
    slices.push_back({at, slice, source.hashes.empty() ? nullptr : &source.hashes[size_t(slice)]});
  }
}

std::vector<io::Hash128> hashes_of(const model::Payload& payload) {
  std::vector<io::Hash128> hashes;
  for (const std::string& text : payload.slice_hashes) {
    const Result<io::Hash128> hash = io::parse_hash(text);
    OMPIPE_CHECK(hash.ok(), "the model layer checks slice hashes");
    hashes.push_back(*hash);
  }
  return hashes;
}

}  // namespace

std::vector<RowTable> row_tables(const plan::PreparedExecutionPlan& plan, Verify verify) {
  std::vector<RowTable> tables;
  for (plan::SegmentId segment = 0; segment < plan::SegmentId(plan.segments.size()); ++segment) {
    for (const plan::RowAccess& access : plan.segments[size_t(segment)].rows) {
      if (access.rows == 0) continue;
      RowTable table{.segment = segment,
                     .object = access.object,
                     .indices = plan.model->value(access.indices).name,
                     .rows = access.rows,
                     .sources = {}};
      bool hashed = true;
      const size_t sources = plan.objects[size_t(access.object)].sources.size();
      for (size_t source = 0; source < sources; ++source) {
        const model::Payload& payload = plan.source_payload(access.object, source);
        hashed = hashed && !payload.slice_hashes.empty();
        table.sources.push_back({payload.length / uint64_t(access.rows),
                                 verify == Verify::never ? std::vector<io::Hash128>{} : hashes_of(payload)});
      }
      if (hashed || verify == Verify::never) tables.push_back(std::move(table));
    }
  }
  return tables;
}

std::vector<RowFetch> row_fetches(std::span<const RowTable> tables, const exec::RuntimeContext& context) {
  std::vector<RowFetch> fetches;
  for (const RowTable& table : tables) {
    const exec::HeldTensor* const indices = input_of(context, table.indices);
    if (!indices) continue;
    RowFetch fetch;
    fetch.segment = table.segment;
    fetch.object = table.object;
    for (size_t source = 0; source < table.sources.size(); ++source)
      add_slices(table, source, indices->view, fetch.slices);
    if (!fetch.slices.empty()) fetches.push_back(std::move(fetch));
  }
  return fetches;
}

}  // namespace ompipe::session
