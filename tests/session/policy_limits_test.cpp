// Limits that change while work goes on: what is refused, what is evicted, who waits, who is woken.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "script.h"

namespace ompipe::session::script {

using arenas::BudgetLimits;
using arenas::Domain;
using arenas::DomainBytes;
using store::Residency;

namespace {

BudgetLimits global_limit(uint64_t bytes) {
  BudgetLimits limits;
  limits.global_bytes = bytes;
  return limits;
}

uint64_t prepared_bytes(const World& world) { return world.budget().usage()[Domain::prepared].live_bytes; }

bool refused_as_busy(const Handle& handle) {
  return handle.done() && !handle.succeeded() && handle.error().kind == ErrorKind::busy;
}

// As the error states it.
bool names(const Handle& handle, uint64_t needed, uint64_t allowed) {
  REQUIRE(handle.done());
  REQUIRE_FALSE(handle.succeeded());
  CHECK(handle.error().kind == ErrorKind::cannot_fit);
  const std::string message = handle.error().message();
  CAPTURE(message);
  return message.find(std::to_string(needed)) != std::string::npos &&
         message.find(std::to_string(allowed)) != std::string::npos;
}

}  // namespace

TEST_SUITE_BEGIN("policy_limits");

TEST_CASE("lowered with nothing live: what is above it is evicted at once") {
  World world;
  SessionState& a = world.bind(make_chain(6));
  const Handle run = world.run(a);
  world.drain();
  REQUIRE(run.succeeded());
  CHECK(world.set_limits(limit(Domain::prepared, 2 * kPage)).succeeded());
  CHECK(prepared_bytes(world) == 2 * kPage);
  const Handle again = world.run(a);
  world.drain();
  CHECK(again.succeeded());
  CHECK(prepared_bytes(world) <= 2 * kPage);
  CHECK(world.set_limits(global_limit(4 * kPage)).succeeded());
  CHECK(world.budget().usage().global_bytes <= 4 * kPage);
}

TEST_CASE("what pins hold is waited for, also bytes on their way in and out") {
  World world({.discards_later = true});
  SessionState& a =
      world.bind(make_plan(std::vector<ObjectSpec>(6), {{0, 1}, {2, 3}, {4}, {5}}), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  for (ObjectId id = 0; id < 4; ++id) world.load(a, id);
  world.start_segment(run);
  const Handle lowered = world.set_limits(limit(Domain::prepared, 2 * kPage));
  CHECK_FALSE(lowered.done());
  CHECK(prepared_bytes(world) == 4 * kPage);  // pinned by the running segment and the next
  world.finish_segment(run);
  CHECK(prepared_bytes(world) == 4 * kPage);
  CHECK_FALSE(lowered.done());
  world.discard();
  CHECK_FALSE(lowered.done());
  world.discard();
  CHECK(lowered.succeeded());
  CHECK(prepared_bytes(world) == 2 * kPage);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("staging that is in flight is waited for; chunks go on in the blocks they have") {
  World world;
  SessionState& a = world.bind(make_plan({{.bytes = 4 * kPage, .chunks = 4}}, {{0}}));
  const Handle run = world.run(a);
  REQUIRE(world.budget().usage()[Domain::preparation].live_bytes > kPage);
  const Handle lowered = world.set_limits(limit(Domain::preparation, kPage));
  CHECK_FALSE(lowered.done());
  world.drain();
  CHECK(lowered.succeeded());
  CHECK(run.succeeded());
}

TEST_CASE("refused below what an open session or live work needs, with the numbers; nothing has changed then") {
  World world({.hot = true});
  SessionState& a = world.bind(make_plan(std::vector<ObjectSpec>(3), {{0, 1}, {2}}));
  CHECK(names(world.set_limits(limit(Domain::prepared, kPage)), 2 * kPage, kPage));
  CHECK(names(world.set_limits(limit(Domain::preparation, kPage)), 2 * kPage, kPage));
  CHECK(names(world.set_limits(global_limit(3 * kPage)), 4 * kPage, 3 * kPage));
  CHECK(world.set_limits(global_limit(4 * kPage)).succeeded());
  CHECK(world.set_limits({}).succeeded());
  // A live run's execution and outputs come on top.
  const Handle run = world.run(a, {.execution_bytes = 2 * kPage, .output_bytes = {kPage}});
  CHECK(names(world.set_limits(global_limit(6 * kPage)), 7 * kPage, 6 * kPage));
  CHECK(names(world.set_limits(limit(Domain::execution, kPage)), 2 * kPage, kPage));
  CHECK(world.budget().limits().global_bytes == arenas::kUnlimited);
  CHECK(world.set_limits(global_limit(7 * kPage)).done() == false);  // three objects are on their way
  world.drain();
  CHECK(run.succeeded());
  // The frame is only kept, the result is held.
  CHECK(names(world.set_limits(global_limit(5 * kPage - 1)), 5 * kPage, 5 * kPage - 1));
  CHECK(world.set_limits(global_limit(5 * kPage)).succeeded());
  CHECK(world.policy().hot().slots.filled() == 0);
  world.outputs.clear();
  CHECK(world.set_limits(global_limit(4 * kPage)).succeeded());
}

TEST_CASE("refused below the results that callers hold, also when no session is open") {
  World world;
  SessionState& a = world.bind(make_chain(1));
  const Handle run = world.run(a, {.output_bytes = {2 * kPage}});
  world.drain();
  REQUIRE(run.succeeded());
  REQUIRE(world.close(a).done());
  CHECK(names(world.set_limits(limit(Domain::io, kPage)), 2 * kPage, kPage));
  CHECK(names(world.set_limits(global_limit(kPage)), 2 * kPage, kPage));
  CHECK(world.budget().limits().global_bytes == arenas::kUnlimited);
  CHECK(world.set_limits(limit(Domain::io, 2 * kPage)).succeeded());
  world.outputs.clear();
  CHECK(world.set_limits(limit(Domain::io, kPage)).succeeded());
}

TEST_CASE("refused below what pending runs and preparations need; a limit that isn't lowered refuses nothing") {
  World world({.limits = limit(Domain::execution, 2 * kPage)});
  SessionState& a = world.bind(make_chain(3));
  const Handle live = world.run(a), pending = world.run(a, {.execution_bytes = 2 * kPage});
  CHECK(names(world.set_limits(limit(Domain::execution, kPage)), 2 * kPage, kPage));
  const Handle prepared = world.prepare(a);
  BudgetLimits limits = limit(Domain::execution, 2 * kPage);
  limits.domain_bytes[Domain::prepared] = 2 * kPage;
  CHECK(names(world.set_limits(limits), 3 * kPage, 2 * kPage));
  world.drain();
  CHECK(live.succeeded());
  CHECK(pending.succeeded());
  CHECK(prepared.succeeded());
  // Below what it needs with its run's own bytes: that is refused, but the limit may come nearer.
  BudgetLimits small;
  small.global_bytes = 6 * kPage;
  World tight({.limits = small});
  SessionState& b = tight.bind(make_plan(std::vector<ObjectSpec>(3), {{0, 1, 2}}));
  CHECK(tight.run(b).error().kind == ErrorKind::cannot_fit);
  CHECK(tight.set_limits(global_limit(7 * kPage - 1)).succeeded());
  CHECK(tight.run(b).error().kind == ErrorKind::cannot_fit);
  CHECK(tight.set_limits(global_limit(7 * kPage)).succeeded());
  const Handle run = tight.run(b);
  tight.drain();
  CHECK(run.succeeded());
}

TEST_CASE("raised: pending runs start, refused gangs are granted, and who waited for a lowered limit is done") {
  World world({.limits = limit(Domain::execution, kPage)});
  SessionState& a = world.bind(make_chain(2), {.mode = Mode::on_demand});
  const Handle first = world.run(a), second = world.run(a);
  world.take_log();
  CHECK(world.set_limits(limit(Domain::execution, 2 * kPage)).succeeded());
  CHECK(world.take_log() == Log{"segment 2.0", "segment 2.1"});
  const Handle lowered = world.set_limits(limit(Domain::prepared, kPage));
  CHECK_FALSE(lowered.done());
  world.load(a, 0);
  CHECK_FALSE(lowered.done());
  CHECK(world.set_limits({}).succeeded());
  CHECK(lowered.succeeded());
  world.drain();
  CHECK(first.succeeded());
  CHECK(second.succeeded());
}

TEST_CASE("preparations give back what they have reserved, and take their turns below the lowered limit") {
  World world;
  SessionState& a = world.bind(make_chain(4));
  SessionState& b = world.bind(make_chain(4));
  const Handle first = world.prepare(a), second = world.prepare(b);
  REQUIRE(prepared_bytes(world) == 8 * kPage);
  const Handle lowered = world.set_limits(limit(Domain::prepared, 4 * kPage));
  world.drain();
  CHECK(lowered.succeeded());
  CHECK(first.succeeded());
  CHECK(second.succeeded());
  CHECK(prepared_bytes(world) <= 4 * kPage);
}

TEST_CASE("hot runs end before their session loses anything to a lowered limit; new ones go cold") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(3));
  const Handle cold = world.run(a);
  world.drain();
  REQUIRE(cold.succeeded());
  const Handle hot = world.run(a);
  world.start_hot();
  const Handle lowered = world.set_limits(limit(Domain::prepared, kPage));
  CHECK_FALSE(lowered.done());
  CHECK_FALSE(a.gate.is_open());
  const Handle next = world.run(a);
  CHECK(world.published() == 0);
  world.finish_hot();
  CHECK(hot.completion->diagnostics.hot);
  CHECK(prepared_bytes(world) == 2 * kPage);  // pinned by the new one, which goes on cold
  world.drain();
  CHECK(lowered.succeeded());
  CHECK(next.succeeded());
  CHECK_FALSE(next.completion->diagnostics.hot);
  CHECK(world.set_limits({}).succeeded());
  const Handle prepared = world.prepare(a);
  world.drain();
  CHECK(a.gate.is_open());
}

// Anything at any time, limits between the smallest and none; what must always hold is checked at every event.
TEST_CASE("runs, preparations, evictions, trims and limits at random") {
  const unsigned seeds = std::getenv("OMPIPE_LONG") ? 20'000 : 400;
  size_t lowered = 0, refused = 0, evicted = 0, busy = 0;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return size_t(random() % n); };
    World world(
        {.discards_later = below(2) == 0, .hot = below(3) != 0, .discards_begin_early = [&] { return below(2) == 0; }});
    std::vector<SessionState*> sessions;
    for (int i = 0; i < 3; ++i) {
      const PlanPointer plan =
          below(2) ? make_chain(3) : make_plan({{.bytes = 2 * kPage, .chunks = 2}, {}, {}}, {{0, 1}, {2}, {0}});
      sessions.push_back(&world.bind(plan, {.mode = below(2) ? Mode::streaming : Mode::on_demand}));
    }
    std::vector<Handle> handles, asked;
    for (int step = 0; step < 100; ++step) {
      SessionState& session = *sessions[below(3)];
      const size_t what = below(16);
      if (what < 2 && handles.size() < 30) {
        handles.push_back(world.run(session, {.output_bytes = {below(2) * kPage}}));
      } else if (what == 2 && below(3) == 0) {
        handles.push_back(world.prepare(session, below(2) == 0));
      } else if (what == 3 && !handles.empty() && below(3) == 0) {
        world.cancel(handles[below(handles.size())]);
      } else if (what == 4) {
        BudgetLimits limits;
        if (below(2)) limits.domain_bytes[Domain::prepared] = (2 + below(6)) * kPage;
        if (below(3) == 0) limits.domain_bytes[Domain::preparation] = (1 + below(4)) * kPage;
        if (below(3) == 0) limits.domain_bytes[Domain::execution] = (1 + below(4)) * kPage;
        if (below(2)) limits.global_bytes = (5 + below(10)) * kPage;
        asked.push_back(world.set_limits(limits));
        ++lowered;
        refused += asked.back().done() && !asked.back().succeeded();
      } else if (what == 5) {
        const Handle handle = below(3) ? world.evict(session, ObjectId(below(3))) : world.evict_all(session);
        ++evicted;
        busy += refused_as_busy(handle);
        asked.push_back(handle);
      } else if (what == 6) {
        asked.push_back(world.trim(below(12) * kPage));
      } else if (what == 7) {
        world.outputs.clear();
      } else if (const std::vector<Event> events = world.possible(); !events.empty()) {
        world.apply(events[below(events.size())]);
      }
    }
    world.drain(below);
    for (const Handle& handle : handles) CHECK(handle.done());
    for (const Handle& handle : asked) CHECK(handle.done());
    world.outputs.clear();
    CHECK(world.set_limits({}).succeeded());
    for (SessionState* session : sessions) {
      const Handle last = world.run(*session);
      world.drain(below);
      CHECK(last.succeeded());
    }
  }
  CHECK(refused > 0);
  CHECK(refused < lowered);
  CHECK(busy > 0);
  CHECK(busy < evicted);
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
