// Preparations: the whole or a clear refusal, filled to the limit, shared with runs, never in the way of an elder.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

int resident(World& world, SessionState& session) {
  int count = 0;
  for (ObjectId id = 0; id < ObjectId(session.objects.size()); ++id)
    count += world.state(session, id) == Residency::resident;
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("policy_preparation");

TEST_CASE("every object is published once, in the order of first use") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  const Handle prepared = world.prepare(a);
  CHECK(world.take_log() == Log{"read a0.0 prefetch", "read a1.0 prefetch", "read a2.0 prefetch"});
  world.load(a, 1);
  world.load(a, 0);
  CHECK_FALSE(prepared.done());
  world.load(a, 2);
  CHECK(prepared.succeeded());
  CHECK(world.prepare(a).succeeded());  // nothing is missing
  world.take_log();
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  CHECK(world.take_log() == Log{"segment 1.0", "segment 1.1", "segment 1.2"});
}

TEST_CASE("its whole prepared set is reserved before its first read") {
  World world({.limits = limit(Domain::prepared, 4 * kPage)});
  SessionState& a = world.bind(make_chain(2), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(4));
  const Handle run = world.run(a);
  world.take_log();
  const Handle prepared = world.prepare(b);  // two pages are pinned
  CHECK(world.take_log().empty());
  world.load(a, 0);
  world.load(a, 1);
  world.segment(run);
  CHECK(resident(world, b) == 0);
  world.take_log();
  world.segment(run);
  const Log log = world.take_log();
  REQUIRE(log.size() == 6);
  CHECK(log[0] == "evict a0");
  CHECK(log[1] == "evict a1");
  CHECK(log[2] == "read b0.0 prefetch");
  world.drain();
  CHECK(prepared.succeeded());
  CHECK(run.succeeded());
}

TEST_CASE("more than fits is refused before any read, with the numbers") {
  arenas::BudgetLimits global, reserve;
  global.global_bytes = 5 * kPage - 1;
  reserve.global_bytes = 5 * kPage;
  reserve.critical_reserve_bytes = 1;
  for (const arenas::BudgetLimits& limits : {limit(Domain::prepared, 4 * kPage - 1), global, reserve}) {
    World world({.limits = limits});
    const Handle prepared = world.prepare(world.bind(make_chain(4)));
    REQUIRE(prepared.done());
    CHECK(prepared.error().kind == ErrorKind::cannot_fit);
    CHECK(prepared.error().phase == "prepare");
    CHECK(world.take_log().empty());
  }
}

TEST_CASE("just enough is enough, whatever lies in the way of another session") {
  arenas::BudgetLimits limits;
  limits.global_bytes = 5 * kPage;
  World world({.limits = limits});
  SessionState& a = world.bind(make_chain(4));
  SessionState& b = world.bind(make_chain(4));
  for (SessionState* session : {&a, &b, &a}) {
    const Handle prepared = world.prepare(*session);
    world.drain();
    CHECK(prepared.succeeded());
    CHECK(resident(world, *session) == 4);
  }
}

TEST_CASE("blocks that an arena keeps are not in the way of a preparation") {
  arenas::BudgetLimits limits;
  limits.global_bytes = 6 * kPage;
  World world({.limits = limits});
  SessionState& a = world.bind(make_chain(4));
  SessionState& b = world.bind(make_chain(5));
  for (SessionState* session : {&a, &b}) {
    const Handle prepared = world.prepare(*session);
    world.drain();
    CHECK(prepared.succeeded());
  }
}

TEST_CASE("what the session has already is kept, others' is evicted") {
  World world({.limits = limit(Domain::prepared, 4 * kPage)});
  SessionState& a = world.bind(make_chain(4), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(2), {.mode = Mode::on_demand});
  for (SessionState* session : {&a, &b}) {
    world.run(*session);
    world.drain();
  }
  REQUIRE(resident(world, a) == 2);
  world.take_log();
  const Handle prepared = world.prepare(a);
  world.drain();
  CHECK(prepared.succeeded());
  const Log log = world.take_log();
  CHECK(std::count_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("evict b"); }) ==
        2);
  CHECK(std::count_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("evict a"); }) ==
        0);
  CHECK(resident(world, a) == 4);
}

TEST_CASE("filled to the limit: terminal when the next object is refused") {
  World world({.limits = limit(Domain::prepared, 3 * kPage)});
  SessionState& a = world.bind(make_chain(6));
  const Handle prepared = world.prepare(a, true);
  CHECK_FALSE(prepared.done());
  world.drain();
  CHECK(prepared.succeeded());
  CHECK(resident(world, a) == 3);
  CHECK(world.policy().counters().evictions == 0);
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("filled to the limit: it doesn't wait until another session pauses") {
  World world({.limits = limit(Domain::prepared, 4 * kPage)});
  SessionState& a = world.bind(make_chain(6));
  SessionState& b = world.bind(make_chain(2), {.mode = Mode::on_demand});
  const Handle first = world.run(b), second = world.run(b);
  const Handle prepared = world.prepare(a, true);
  world.load(a, 0);
  CHECK_FALSE(prepared.done());  // what it has under way gives staging back
  world.load(a, 1);
  REQUIRE(prepared.done());
  CHECK(prepared.succeeded());
  CHECK(resident(world, a) == 2);
  CHECK_FALSE(first.done());
  world.drain();
  CHECK(first.succeeded());
  CHECK(second.succeeded());
}

TEST_CASE("a run takes what a preparation has reserved") {
  World world({.load_tokens = 2, .publish_tokens = 8, .limits = limit(Domain::prepared, 4 * kPage)});
  SessionState& a = world.bind(make_chain(4));
  const Handle prepared = world.prepare(a);
  CHECK(world.take_log() == Log{"read a0.0 prefetch"});  // one token is kept for critical work
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"promote a0.0 critical", "segment 1.0", "read a1.0 critical", "segment 1.1"});
  world.drain();
  CHECK(prepared.succeeded());
  CHECK(run.succeeded());
  CHECK(world.policy().counters().evictions == 0);
}

TEST_CASE("a failure ends it; what it has on its way goes on; a second one tries again") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  const Handle prepared = world.prepare(a);
  world.read(a, 1, 0, io_error());
  world.pack(a, 1);
  REQUIRE(prepared.done());
  CHECK(prepared.error().errno_value == 5);
  CHECK(prepared.completion->diagnostics.failed_task == "prepack w1");
  const Handle again = world.prepare(a);
  world.drain();
  CHECK(again.succeeded());
  CHECK(a.store->generation(1) == 2);
}

TEST_CASE("cancelled: terminal at once; a run that needs its objects gets them") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  const Handle prepared = world.prepare(a);
  const Handle run = world.run(a);
  world.cancel(prepared);
  REQUIRE(prepared.done());
  CHECK(prepared.error().kind == ErrorKind::cancelled);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a refused elder gets what a preparation of another session holds and hasn't used") {
  // b's preparation has all the room reserved and can't go on without the staging that a's run holds.
  arenas::BudgetLimits limits = limit(Domain::prepared, 4 * kPage);
  limits.domain_bytes[Domain::preparation] = kPage;
  World world({.limits = limits});
  SessionState& a = world.bind(make_chain(3), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(3), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  const Handle prepared = world.prepare(b);
  world.drain();
  CHECK(run.succeeded());
  CHECK(prepared.succeeded());
}

TEST_CASE("one that only results in callers' hands keep out fails instead of waiting") {
  arenas::BudgetLimits limits;
  limits.global_bytes = 5 * kPage;
  World world({.limits = limits});
  SessionState& a = world.bind(make_chain(1));
  SessionState& b = world.bind(make_chain(4));
  world.run(a, {.output_bytes = {2 * kPage}});
  world.drain();
  const Handle prepared = world.prepare(b);
  world.drain();
  REQUIRE(prepared.done());
  CHECK(prepared.error().kind == ErrorKind::cannot_fit);
  world.outputs.clear();
  const Handle again = world.prepare(b);
  world.drain();
  CHECK(again.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
