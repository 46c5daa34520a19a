// Bytes that a caller asks back: one object, a session's all, down to a number; and who is in the way.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

void warm(World& world, SessionState& session) {
  const Handle run = world.run(session);
  world.drain();
  REQUIRE(run.succeeded());
}

int resident(World& world, SessionState& session) {
  int count = 0;
  for (ObjectId id = 0; id < ObjectId(session.objects.size()); ++id)
    count += world.state(session, id) == Residency::resident;
  return count;
}

uint64_t counted(const World& world) { return world.budget().usage().global_bytes; }

bool refused_as_busy(const Handle& handle) {
  return handle.done() && !handle.succeeded() && handle.error().kind == ErrorKind::busy;
}

}  // namespace

TEST_SUITE_BEGIN("policy_release");

TEST_CASE("an object is evicted by name, and the next run loads it alone") {
  World world;
  SessionState& a = world.bind(make_chain(4));
  warm(world, a);
  world.take_log();
  const Handle evicted = world.evict(a, 2);
  CHECK(evicted.succeeded());
  CHECK(world.take_log() == Log{"evict a2"});
  CHECK(world.state(a, 2) == Residency::absent);
  CHECK(world.evict(a, 2).succeeded());  // it is absent already
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  const Log log = world.take_log();
  CHECK(std::count_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("read"); }) == 1);
  CHECK(a.store->generation(2) == 2);
}

TEST_CASE("the segments before an evicted object run before it has been read") {
  World world;
  SessionState& a = world.bind(make_chain(5));
  warm(world, a);
  REQUIRE(world.evict(a, 3).succeeded());
  const Handle run = world.run(a);
  for (int segment = 0; segment < 3; ++segment) world.segment(run);
  CHECK(world.state(a, 3) == Residency::loading);
  CHECK_FALSE(run.done());
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("no such object; a name that several have") {
  World world;
  SessionState& a = world.bind(make_chain(1));
  Completion done;
  world.policy().evict_named(a, "nothing", done);
  REQUIRE(done.ready());
  CHECK(done.status->error().kind == ErrorKind::usage);
  CHECK(done.status->error().message().find("nothing") != std::string::npos);
  auto twins = std::make_shared<plan::PreparedExecutionPlan>(*make_chain(2));
  twins->objects[1].name = twins->objects[0].name;
  twins->objects[1].key = "second";
  SessionState& b = world.bind(twins);
  warm(world, b);
  CHECK(world.evict(b, 1).error().kind == ErrorKind::usage);
  CHECK(resident(world, b) == 2);
  Completion by_key;
  world.policy().evict_named(b, "second", by_key);
  world.policy().pump();
  CHECK(by_key.status->ok());
  CHECK(world.state(b, 0) == Residency::resident);
  CHECK(world.state(b, 1) == Residency::absent);
}

TEST_CASE("refused under a pin and while it is loaded; granted once the segment has run") {
  World world;
  SessionState& a = world.bind(make_chain(4), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  CHECK(refused_as_busy(world.evict(a, 0)));  // asked for by the first segment
  world.load(a, 0);
  world.start_segment(run);
  const Handle pinned = world.evict(a, 0);
  CHECK(refused_as_busy(pinned));
  CHECK(pinned.error().message().find("pinned by 1") != std::string::npos);
  CHECK(world.state(a, 0) == Residency::resident);
  world.finish_segment(run);
  CHECK(world.evict(a, 0).succeeded());
  CHECK(world.state(a, 0) == Residency::absent);
  world.drain();
  CHECK(run.succeeded());
  const Handle prepared = world.prepare(a);
  CHECK(refused_as_busy(world.evict(a, 0)));  // nobody has it pinned, but it is on its way
  world.drain();
  CHECK(prepared.succeeded());
}

TEST_CASE("all of a session or nothing of it") {
  World world;
  SessionState& a = world.bind(make_chain(4), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(2));
  warm(world, b);
  const Handle run = world.run(a);
  world.load(a, 0);
  world.load(a, 1);
  world.segment(run);
  CHECK(refused_as_busy(world.evict_all(a)));
  CHECK(resident(world, a) == 2);
  world.drain();
  CHECK(world.evict_all(a).succeeded());
  CHECK(resident(world, a) == 0);
  CHECK(resident(world, b) == 2);
  CHECK(world.evict_all(a).succeeded());
  CHECK(world.budget().usage()[Domain::prepared].live_bytes == 2 * kPage);
  warm(world, a);
}

TEST_CASE("a request ends when the pages have gone") {
  World world({.discards_later = true});
  SessionState& a = world.bind(make_chain(3));
  warm(world, a);
  const Handle all = world.evict_all(a);
  const Handle one = world.evict(a, 0);  // on its way out already
  for (int left = 3; left > 0; --left) {
    CHECK_FALSE(all.done());
    CHECK(one.done() == (left < 3));
    world.discard();
  }
  CHECK(all.succeeded());
  CHECK(one.succeeded());
  const Handle again = world.evict_all(a);
  CHECK(again.succeeded());
}

TEST_CASE("a load that was given up is waited for") {
  World world({.discards_later = true});
  SessionState& a = world.bind(make_chain(1));
  const Handle run = world.run(a);
  world.begin_read(a, 0);
  world.cancel(run);  // its read is in flight: the load is abandoned, and may be asked for again
  CHECK(refused_as_busy(world.evict(a, 0)));
  world.read(a, 0);
  const Handle evicted = world.evict(a, 0);
  CHECK_FALSE(evicted.done());
  world.drain();
  CHECK(evicted.succeeded());
  CHECK(world.state(a, 0) == Residency::absent);
}

TEST_CASE("refused under a hot run, which stays hot; granted after it, and a preparation restores the hot path") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(2));
  warm(world, a);
  const Handle hot = world.run(a);
  world.start_hot();
  const uint64_t epoch = a.gate.epoch();
  const Handle refused = world.evict(a, 0);
  CHECK(refused_as_busy(refused));
  CHECK(refused.error().message().find("hot") != std::string::npos);
  CHECK(refused_as_busy(world.evict_all(a)));
  CHECK(a.gate.is_open());
  CHECK(a.gate.epoch() == epoch + 4);  // advanced, looked at, restored, twice
  const Handle second = world.run(a);
  CHECK(world.published() == 1);
  world.finish_hot();
  CHECK(hot.completion->diagnostics.hot);
  CHECK(world.evict(a, 0).succeeded());  // the second is published and has not begun
  CHECK_FALSE(a.gate.is_open());
  world.drain();
  CHECK(second.succeeded());
  CHECK_FALSE(second.completion->diagnostics.hot);
  CHECK(world.evict_all(a).succeeded());
  const Handle prepared = world.prepare(a);
  world.drain();
  REQUIRE(prepared.succeeded());
  CHECK(a.gate.is_open());
  const Handle again = world.run(a);
  world.drain();
  CHECK(again.completion->diagnostics.hot);
}

TEST_CASE("trim: retained bytes, then kept frames, then objects with the farthest next use, no more than asked for") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(4));
  warm(world, a);
  // Live: a kept frame, four objects.
  const uint64_t staging = world.budget().usage()[Domain::preparation].retained_bytes;
  REQUIRE(staging > kPage);
  REQUIRE(counted(world) == 5 * kPage + staging);
  CHECK(world.trim(6 * kPage).succeeded());
  CHECK(counted(world) == 6 * kPage);
  CHECK(world.trim(5 * kPage).succeeded());
  CHECK(counted(world) == 5 * kPage);
  CHECK(world.budget().usage()[Domain::preparation].retained_bytes == 0);
  CHECK(world.policy().hot().slots.filled() == 1);
  CHECK(world.trim(5 * kPage - 1).succeeded());
  CHECK(counted(world) == 4 * kPage);
  CHECK(world.policy().hot().slots.filled() == 0);
  CHECK(a.gate.is_open());
  world.take_log();
  CHECK(world.trim(2 * kPage).succeeded());
  CHECK(world.take_log() == Log{"evict a0", "evict a1"});  // no run is live: the least recently used
  CHECK(counted(world) == 2 * kPage);
  CHECK(world.trim(0).succeeded());
  CHECK(counted(world) == 0);
  warm(world, a);
}

TEST_CASE("trim takes nothing that is in use") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(3), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(2));
  warm(world, b);
  const Handle hot = world.run(b), cold = world.run(a, {.output_bytes = {kPage}});
  world.start_hot();
  world.load(a, 0);
  world.start_segment(cold);
  CHECK(world.trim(0).succeeded());
  CHECK(world.state(a, 0) == Residency::resident);
  CHECK(resident(world, b) == 2);
  CHECK(b.gate.is_open());
  world.finish_hot();
  CHECK(hot.completion->diagnostics.hot);
  CHECK(world.trim(0).succeeded());
  CHECK(resident(world, b) == 0);
  CHECK(world.state(a, 0) == Residency::resident);
  world.drain();
  CHECK(cold.succeeded());
  CHECK(world.trim(0).succeeded());
  CHECK(counted(world) == kPage);  // the result, which the caller holds
}

TEST_CASE("trim ends when the pages have gone, and counts what is on its way out already") {
  World world({.discards_later = true});
  SessionState& a = world.bind(make_chain(4));
  warm(world, a);
  const Handle evicted = world.evict(a, 1);
  const Handle trimmed = world.trim(2 * kPage);
  CHECK_FALSE(trimmed.done());
  CHECK(resident(world, a) == 2);
  world.discard();
  CHECK(evicted.succeeded());
  CHECK_FALSE(trimmed.done());
  world.discard();
  CHECK(trimmed.succeeded());
  CHECK(counted(world) == 2 * kPage);
}

TEST_CASE("a session closes although a request for its bytes is open") {
  World world({.discards_later = true});
  SessionState& a = world.bind(make_chain(2));
  warm(world, a);
  const Handle all = world.evict_all(a), closed = world.close(a);
  CHECK_FALSE(closed.done());
  world.drain();
  CHECK(all.succeeded());
  CHECK(closed.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
