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

Slices slices_of(const std::vector<RowTable>& tables, const RuntimeSession& session, const Tokens& ids) {
  Decoder decoder(session);
  decoder.feed(ids);
  const std::vector<RowFetch> fetches = row_fetches(tables, decoder.context);
  if (fetches.empty()) return {};
  REQUIRE(fetches.size() == 1);
  CHECK(fetches[0].segment == tables[0].segment);
  CHECK(fetches[0].object == tables[0].object);
  CHECK(fetches[0].hashes.data() == tables[0].hashes.data());
  return fetches[0].slices;
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
    const model::Payload& payload = plan.main_payload(table.object);
    CAPTURE(payload.name);
    CHECK(table.rows == payload.dims[0]);
    CHECK(table.row_bytes * uint64_t(table.rows) == payload.length);
    REQUIRE(table.hashes.size() == payload.slice_hashes.size());
    for (size_t i = 0; i < table.hashes.size(); ++i) {
      CHECK(io::format_hash(table.hashes[i]) == payload.slice_hashes[i]);
    }
  }
  CHECK(embedding(plan, Verify::once)[0].indices == "input_ids");
  CHECK(embedding(plan, Verify::once)[0].hashes.size() >= 2);
  CHECK(embedding(plan, Verify::never)[0].hashes.empty());
}

TEST_CASE("each slice once, ascending; ids out of range and inputs not fed name none") {
  Rig rig({.scheduler = "sequential"});
  const RuntimeSession& session = rig.open();
  const std::vector<RowTable> tables = embedding(session.plan(), Verify::once);
  const int64_t rows = tables[0].rows;
  const auto in_second = int64_t(io::kSliceBytes / tables[0].row_bytes + 1);
  CHECK(slices_of(tables, session, {1}) == Slices{0});
  CHECK(slices_of(tables, session, {in_second}) == Slices{1});
  CHECK(slices_of(tables, session, {in_second, 1, 0, in_second}) == Slices{0, 1});
  CHECK(slices_of(tables, session, {-rows}) == Slices{0});
  CHECK(slices_of(tables, session, {-rows - 1, rows}) == Slices{});
  CHECK(row_fetches(tables, exec::RuntimeContext{}).empty());
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
