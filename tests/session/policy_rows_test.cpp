// Tables by rows: the slices that a run asks for, beside the table as a whole.
#include <doctest/doctest.h>

#include <algorithm>

#include "ompipe/io/limits.h"
#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

// A table, then a weight.
PlanPointer table_plan() {
  return make_plan({{.bytes = kTableSlices * io::kSliceBytes, .chunks = 4, .staging_bytes = 0, .table = true}, {}},
                   {{0}, {1}});
}

}  // namespace

TEST_SUITE_BEGIN("policy_rows");

TEST_CASE("a run reads the slices it asks for, each run its own, and nothing becomes resident") {
  World world;
  SessionState& a = world.bind(table_plan(), {.mode = Mode::on_demand});
  const Handle run = world.run(a, {.slices = {1, 6}});
  CHECK(world.take_log() ==
        Log{"read a0.1 critical", "segment 1.0", "read a1.0 critical", "segment 1.1", "read a0.6 critical"});
  CHECK(world.budget().usage()[Domain::preparation].live_bytes == 2 * io::kSliceBytes + kPage);
  world.read(a, 0, 6);
  world.pack(a, 0, 6);
  CHECK(world.take_log() == Log{"open a0.6 critical"});
  world.read(a, 0, 1);
  world.pack(a, 0, 1);
  CHECK(world.take_log() == Log{"open a0.1 critical", "publish rows"});
  world.segment(run);
  CHECK(world.state(a, 0) == Residency::absent);
  CHECK(world.budget().usage()[Domain::preparation].live_bytes == kPage);
  world.drain();
  CHECK(run.succeeded());
  world.take_log();
  const Handle again = world.run(a, {.slices = {2}});
  CHECK(world.take_log() == Log{"read a0.2 critical", "segment 2.0", "segment 2.1"});
  world.drain();
  CHECK(again.succeeded());
}

TEST_CASE("a resident table is used; one without slices asked for is loaded") {
  World world;
  SessionState& a = world.bind(table_plan(), {.mode = Mode::on_demand});
  const Handle whole = world.run(a);
  world.drain();
  CHECK(whole.succeeded());
  CHECK(world.state(a, 0) == Residency::resident);
  world.take_log();
  const Handle rows = world.run(a, {.slices = {1}});
  CHECK(world.take_log() == Log{"segment 2.0", "segment 2.1"});
  world.drain();
  CHECK(rows.succeeded());
}

TEST_CASE("a staging limit without room for the slices beside the largest gang: the whole table") {
  World world({.limits = limit(Domain::preparation, 2 * io::kSliceBytes)});
  SessionState& a = world.bind(table_plan(), {.mode = Mode::on_demand});
  const Handle run = world.run(a, {.slices = {1, 6}});
  CHECK(world.take_log().front() == "read a0.0 critical");
  world.drain();
  CHECK(run.succeeded());
  CHECK(world.state(a, 0) == Residency::resident);
}

TEST_CASE("more slices than may be open at once, with few tokens") {
  World world({.threads = 1, .load_tokens = 4, .publish_tokens = 4});
  SessionState& a = world.bind(table_plan(), {.mode = Mode::on_demand});
  for (int i = 0; i < 3; ++i) {
    const Handle run = world.run(a, {.slices = {0, 1, 2, 3, 5, 7}});
    world.drain();
    CHECK(run.succeeded());
  }
}

TEST_CASE("a slice that fails fails its run alone; the table itself is not touched") {
  World world;
  SessionState& a = world.bind(table_plan(), {.mode = Mode::on_demand});
  const Handle failing = world.run(a, {.slices = {1, 6}});
  world.read(a, 0, 1, io_error());
  world.pack(a, 0, 1);
  const Handle other = world.run(a, {.slices = {2}});
  world.drain();
  REQUIRE(failing.done());
  CHECK(failing.error().errno_value == 5);
  CHECK(failing.completion->diagnostics.failed_task == "rows of w0");
  CHECK(other.succeeded());
  CHECK(world.state(a, 0) == Residency::absent);
}

TEST_CASE("rows with a wrong hash: the segment that waits for them is taken back before their gate opens") {
  World world;
  SessionState& a = world.bind(table_plan(), {.mode = Mode::on_demand});
  const Handle run = world.run(a, {.slices = {1, 6}});
  world.read(a, 0, 1);
  world.start_pack(a, 0, 1);
  world.read(a, 0, 6);
  world.pack(a, 0, 6);
  world.take_log();
  world.finish_pack(a, 0, 1, Error{ErrorKind::bad_model, "digest", "table", "a slice differs"});
  const Log log = world.take_log();
  CAPTURE(log);
  const auto taken_back = std::find(log.begin(), log.end(), "take back 1.0");
  const auto opened = std::find(log.begin(), log.end(), "publish rows");
  REQUIRE(opened != log.end());
  CHECK(taken_back < opened);
  REQUIRE(run.done());  // nothing of it has begun
  CHECK(run.error().phase == "digest");
  world.drain();
  CHECK(world.state(a, 0) == Residency::absent);
}

TEST_CASE("a table that is also a packed weight: its rows and its own reads are apart") {
  World world;
  const ObjectSpec packed{.bytes = kTableSlices * io::kSliceBytes, .chunks = 4, .aux_reads = 1, .table = true};
  SessionState& a = world.bind(make_plan({packed, {}}, {{0}, {1}, {0}}));
  const Handle run = world.run(a, {.slices = {6}});
  const Log log = world.take_log();
  for (const char* wanted : {"read a0.6 critical", "read a0.aux prefetch", "read a0.0 prefetch"})
    CHECK(std::count(log.begin(), log.end(), wanted) == 1);
  world.read(a, 0, 6);
  CHECK(world.take_log() == Log{"open a0.6 critical"});
  // The slice is being checked: the table's aux reads make chunks ready, not slices.
  world.read(a, 0, -1);
  CHECK(world.take_log() == Log{});
  world.pack(a, 0, 6);
  CHECK(world.take_log() == Log{"publish rows"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(world.state(a, 0) == Residency::resident);
  world.take_log();
  const Handle again = world.run(a, {.slices = {6}});
  CHECK(world.take_log() == Log{"segment 2.0", "segment 2.1"});
  world.drain();
  CHECK(again.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
