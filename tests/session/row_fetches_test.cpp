// Which slices an invocation fetches: tables are looked up once, ids at every run.
#include "row_fetches.h"

#include <doctest/doctest.h>

#include "rig.h"

namespace ompipe::session::testing {
namespace {

using Slices = std::vector<uint64_t>;

// The embedding table alone.
std::vector<RowTable> embedding(const plan::PreparedExecutionPlan& plan, Verify verify) {
  std::vector<RowTable> tables = row_tables(plan, verify);
  std::erase_if(tables,
                [&](const RowTable& table) { return plan.main_payload(table.object).name != "embedding.weight"; });
  REQUIRE(tables.size() == 1);
  return tables;
}

// Of the table's first source, its values.
Slices slices_of(const std::vector<RowTable>& tables, const RuntimeSession& session, const Tokens& ids) {
  Decoder decoder(session);
  decoder.feed(ids);
  const std::vector<RowFetch> fetches = row_fetches(tables, decoder.context);
  if (fetches.empty()) return {};
  REQUIRE(fetches.size() == 1);
  CHECK(fetches[0].segment == tables[0].segment);
  CHECK(fetches[0].object == tables[0].object);
  Slices of_first;
  for (const RowFetch::Slice& slice : fetches[0].slices) {
    CHECK(slice.hash == &tables[0].sources[slice.source].hashes[size_t(slice.index)]);
    if (slice.source == 0) of_first.push_back(slice.index);
  }
  return of_first;
}

}  // namespace

TEST_SUITE_BEGIN("row_fetches");

TEST_CASE("a table knows its rows, the input that names them, and the hash of every slice") {
  Rig rig({.scheduler = "sequential"});
  const plan::PreparedExecutionPlan& plan = rig.open().plan();
  size_t accesses = 0;
  for (const plan::Segment& segment : plan.segments) accesses += segment.rows.size();
  const std::vector<RowTable> tables = row_tables(plan, Verify::once);
  CHECK(tables.size() == accesses);
  for (const RowTable& table : tables) {
    REQUIRE(table.sources.size() == plan.objects[size_t(table.object)].sources.size());
    for (size_t source = 0; source < table.sources.size(); ++source) {
      const model::Payload& payload = plan.source_payload(table.object, source);
      const RowTable::Source& found = table.sources[source];
      CAPTURE(payload.name);
      CHECK(found.row_bytes * uint64_t(table.rows) == payload.length);
      REQUIRE(found.hashes.size() == payload.slice_hashes.size());
      for (size_t i = 0; i < found.hashes.size(); ++i) {
        CHECK(io::format_hash(found.hashes[i]) == payload.slice_hashes[i]);
      }
    }
  }
  CHECK(embedding(plan, Verify::once)[0].indices == "input_ids");
  CHECK(embedding(plan, Verify::once)[0].sources[0].hashes.size() >= 2);
  CHECK(embedding(plan, Verify::never)[0].sources[0].hashes.empty());
}

TEST_CASE("each slice once, ascending; ids out of range and inputs not fed name none") {
  Rig rig({.scheduler = "sequential"});
  const RuntimeSession& session = rig.open();
  const std::vector<RowTable> tables = embedding(session.plan(), Verify::once);
  const int64_t rows = tables[0].rows;
  const auto in_second = int64_t(io::kSliceBytes / tables[0].sources[0].row_bytes + 1);
  CHECK(slices_of(tables, session, {1}) == Slices{0});
  CHECK(slices_of(tables, session, {in_second}) == Slices{1});
  CHECK(slices_of(tables, session, {in_second, 1, 0, in_second}) == Slices{0, 1});
  CHECK(slices_of(tables, session, {-rows}) == Slices{0});
  CHECK(slices_of(tables, session, {-rows - 1, rows}) == Slices{});
  CHECK(row_fetches(tables, exec::RuntimeContext{}).empty());
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
