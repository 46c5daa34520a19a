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

std::vector<uint64_t> slices_of(const RowTable& table, const exec::Tensor& indices) {
  std::vector<uint64_t> slices;
  for (int64_t i = 0; i < indices.elements(); ++i) {
    int64_t row = exec::int_at(indices, i);
    if (row < 0) row += table.rows;
    if (row < 0 || row >= table.rows) continue;
    const uint64_t first = uint64_t(row) * table.row_bytes / io::kSliceBytes;
    const uint64_t last = ((uint64_t(row) + 1) * table.row_bytes - 1) / io::kSliceBytes;
    for (uint64_t slice = first; slice <= last; ++slice) slices.push_back(slice);
  }
  std::sort(slices.begin(), slices.end());
  slices.erase(std::unique(slices.begin(), slices.end()), slices.end());
  return slices;
}

}  // namespace

std::vector<RowTable> row_tables(const plan::PreparedExecutionPlan& plan, Verify verify) {
  std::vector<RowTable> tables;
  for (plan::SegmentId segment = 0; segment < plan::SegmentId(plan.segments.size()); ++segment) {
    for (const plan::RowAccess& access : plan.segments[size_t(segment)].rows) {
      const model::Payload& payload = plan.main_payload(access.object);
      const int64_t rows = payload.dims.empty() ? 0 : payload.dims[0];
      if (rows == 0 || (payload.slice_hashes.empty() && verify != Verify::never)) continue;
      RowTable& table = tables.emplace_back(RowTable{.segment = segment,
                                                     .object = access.object,
                                                     .indices = plan.model->value(access.indices).name,
                                                     .rows = rows,
                                                     .row_bytes = payload.length / uint64_t(rows),
                                                     .hashes = {}});
      if (verify == Verify::never) continue;
      for (const std::string& text : payload.slice_hashes) {
        const Result<io::Hash128> hash = io::parse_hash(text);
        OMPIPE_CHECK(hash.ok(), "the model layer checks slice hashes");
        table.hashes.push_back(*hash);
      }
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
    fetch.slices = slices_of(table, indices->view);
    fetch.hashes = table.hashes;
    if (!fetch.slices.empty()) fetches.push_back(std::move(fetch));
  }
  return fetches;
}

}  // namespace ompipe::session
