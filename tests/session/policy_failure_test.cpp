// Failure: exactly those who wait for what failed fail; everything drains; a later request tries again.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

Error kernel_error() { return {.kind = ErrorKind::usage, .phase = "run", .subject = "gather", .reason = "index"}; }

// The chunk's read has failed: its no-op drains.
void fail_read(World& world, SessionState& session, ObjectId object, int chunk = 0) {
  world.read(session, object, chunk, io_error());
  world.pack(session, object, chunk);
}

}  // namespace

TEST_SUITE_BEGIN("policy_failure");

TEST_CASE("a failed read fails the run that waits for it, with its context; a later run tries again") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  const Handle other = world.prepare(a);
  const Handle run = world.run(a);
  world.take_log();
  world.load(a, 1);
  world.load(a, 2);
  world.take_log();
  world.read(a, 0, 0, io_error());
  CHECK(world.take_log() == Log{"open a0.0 noop"});
  world.pack(a, 0);
  CHECK(world.take_log() == Log{"take back 1.1", "take back 1.0", "publish a0", "give up a0"});
  CHECK(world.state(a, 0) == Residency::failed);
  REQUIRE(run.done());
  world.drain();
  CHECK(run.error().phase == "read");
  CHECK(run.error().errno_value == 5);
  CHECK(run.completion->diagnostics.failed_task == "prepack w0");
  CHECK(run.completion->diagnostics.suppressed == std::vector<std::string>{"s0", "s1", "s2"});
  CHECK_FALSE(other.succeeded());
  CHECK(world.state(a, 1) == Residency::resident);
  const Handle again = world.run(a);
  CHECK(world.take_log().size() > 0);
  world.drain();
  CHECK(again.succeeded());
  CHECK(a.store->generation(0) == 2);
  CHECK(a.store->generation(1) == 1);
}

TEST_CASE("a failed prepack, aux read or chunk in the middle: the same, once the others have reported") {
  const PlanPointer plan = make_plan({{.bytes = 3 * kPage, .chunks = 3, .aux_reads = 1}}, {{0}});
  World world;
  SessionState& a = world.bind(plan);
  SUBCASE("prepack") {
    const Handle run = world.run(a);
    world.read(a, 0, -1);
    for (const int chunk : {0, 1, 2}) world.read(a, 0, chunk);
    world.start_pack(a, 0, 0);
    world.start_pack(a, 0, 1);
    world.start_pack(a, 0, 2);
    world.finish_pack(a, 0, 1, kernel_error());
    CHECK(world.state(a, 0) == Residency::preparing);
    world.finish_pack(a, 0, 0);
    world.finish_pack(a, 0, 2, io_error());
    CHECK(world.state(a, 0) == Residency::failed);
    world.drain();
    CHECK(run.error().reason == "index");  // the first one
  }
  SUBCASE("aux read") {
    const Handle run = world.run(a);
    world.read(a, 0, 1);
    world.begin_read(a, 0, 0);
    world.take_log();
    world.read(a, 0, -1, io_error());
    CHECK(world.take_log() == Log{"withdraw a0.2", "open a0.1 noop", "open a0.2 noop"});
    CHECK(world.state(a, 0) == Residency::loading);
    world.pack(a, 0, 1);
    world.pack(a, 0, 2);
    fail_read(world, a, 0, 0);
    CHECK(world.state(a, 0) == Residency::failed);
    world.drain();
    CHECK(run.error().phase == "read");
  }
  SUBCASE("a chunk before the last is read") {
    World narrow({.limits = limit(Domain::preparation, 2 * kPage)});
    SessionState& b = narrow.bind(plan);
    const Handle run = narrow.run(b);
    narrow.read(b, 0, -1);
    narrow.take_log();
    fail_read(narrow, b, 0, 0);
    CHECK(narrow.take_log() ==
          Log{"open a0.0 noop", "take back 1.0", "publish a0", "give up a0"});  // the others are never read
    narrow.drain();
    CHECK_FALSE(run.succeeded());
    const Handle again = narrow.run(b);
    narrow.drain();
    CHECK(again.succeeded());
  }
  const Handle again = world.run(a);
  world.drain();
  CHECK(again.succeeded());
}

TEST_CASE("a prefetch that fails before anyone waits for it fails nobody: it is read again when it is reached") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  const Handle run = world.run(a);
  fail_read(world, a, 2);
  CHECK(world.state(a, 2) == Residency::failed);
  world.load(a, 0);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log() == Log{"read a2.0 critical", "segment 1.2"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(a.store->generation(2) == 2);
}

TEST_CASE("a run that reaches an object which is failing waits for that generation's end") {
  World world;
  SessionState& a = world.bind(make_plan({{}, {}, {.bytes = 2 * kPage, .chunks = 2}}, {{0}, {1}, {2}}));
  const Handle run = world.run(a);
  world.begin_read(a, 2, 1);
  fail_read(world, a, 2, 0);
  CHECK(world.state(a, 2) == Residency::loading);  // its second chunk is on its way
  world.load(a, 0);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log().empty());
  world.read(a, 2, 1);
  world.pack(a, 2, 1);
  CHECK(world.take_log() ==
        Log{"open a2.1 noop", "publish a2", "give up a2", "read a2.0 critical", "segment 1.2", "read a2.1 critical"});
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("all who wait fail together, nobody else does") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  SessionState& b = world.bind(make_chain(1));
  const Handle first = world.run(a), second = world.run(a), other = world.run(b);
  fail_read(world, a, 1);
  world.drain();
  CHECK_FALSE(first.succeeded());
  CHECK_FALSE(second.succeeded());
  CHECK(other.succeeded());
}

TEST_CASE("the next generation does not wait for those who failed with the last one to report") {
  World world;
  SessionState& a = world.bind(make_chain(2));
  const Handle first = world.run(a);
  fail_read(world, a, 0);
  world.take_log();
  const Handle second = world.run(a);
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 2.0"});  // a1 was nobody's, and goes first
  world.segment(first);                                                 // does nothing, and names the old gate
  world.drain();
  CHECK_FALSE(first.succeeded());
  CHECK(second.succeeded());
  CHECK(a.store->generation(0) == 2);
}

TEST_CASE("a failing kernel fails its run alone, and what is resident stays") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  const Handle first = world.run(a), second = world.run(a);
  world.load(a, 0);
  world.load(a, 1);
  world.start_segment(first);
  world.finish_segment(first, kernel_error());
  world.segment(first);  // the one created ahead, as a no-op
  REQUIRE(first.done());
  CHECK(first.error().subject == "gather");
  CHECK(first.completion->diagnostics.failed_task == "segment s0");
  CHECK(first.completion->diagnostics.suppressed == std::vector<std::string>{"s1", "s2"});
  world.drain();
  CHECK(second.succeeded());
  for (const ObjectId object : {0, 1, 2}) CHECK(a.store->generation(object) == 1);
}

TEST_CASE("a cancelled run whose gang was refused goes at once, and the next one gets on") {
  World world({.limits = limit(Domain::prepared, 2 * kPage)});
  SessionState& a = world.bind(make_plan(std::vector<ObjectSpec>(2), {{0, 1}}), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(2), {.mode = Mode::on_demand});
  const Handle first = world.run(b);
  const Handle refused = world.run(a);
  world.cancel(refused);
  REQUIRE(refused.done());
  CHECK(refused.error().kind == ErrorKind::cancelled);
  world.drain();
  CHECK(first.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
