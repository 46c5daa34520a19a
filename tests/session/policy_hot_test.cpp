// The policy beside hot runs: what is published, what frames keep, and who waits for whom.
#include <doctest/doctest.h>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

bool contains(const Log& log, const std::string& line) { return std::find(log.begin(), log.end(), line) != log.end(); }

// Everything resident, and one frame kept.
Handle warm(World& world, SessionState& session) {
  const Handle run = world.run(session);
  world.drain();
  CHECK(run.succeeded());
  return run;
}

}  // namespace

TEST_SUITE_BEGIN("policy_hot");

TEST_CASE("with everything resident a run is published instead of cut into segments; its frame is kept") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(2));
  CHECK_FALSE(warm(world, a).completion->diagnostics.hot);
  CHECK(world.policy().hot().slots.filled() == 1);
  CHECK(world.budget().usage()[Domain::execution].live_bytes == kPage);
  world.take_log();
  const Handle first = world.run(a), second = world.run(a);  // with the frame that was kept, and with another one
  CHECK(world.published() == 2);
  world.start_hot();
  world.start_hot();
  CHECK(world.take_log() == Log{"hot 2", "hot 3"});
  CHECK_FALSE(first.done());
  world.finish_hot();
  CHECK(first.succeeded());
  CHECK_FALSE(second.done());
  world.finish_hot(io_error());
  CHECK_FALSE(second.succeeded());
  CHECK(second.done());
  CHECK(world.policy().hot().slots.filled() == 2);
}

TEST_CASE("ready at once after a preparation, and with nothing to prepare") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_plan({}, {{}}));
  const Handle prepared = world.prepare(a);
  world.drain();
  REQUIRE(prepared.succeeded());
  world.take_log();
  const Handle run = world.run(a), empty = world.run(b);
  world.drain();
  CHECK(world.take_log() == Log{"hot 1", "hot 2"});
  CHECK(run.completion->diagnostics.hot);
  CHECK(empty.completion->diagnostics.hot);
}

TEST_CASE("what a kept frame holds is given back when a start needs it") {
  World world({.limits = limit(Domain::execution, kPage), .hot = true});
  SessionState& a = world.bind(make_chain(1));
  SessionState& b = world.bind(make_chain(1));
  warm(world, a);
  warm(world, b);
  CHECK(world.policy().hot().slots.filled() == 1);
  CHECK(warm(world, b).completion->diagnostics.hot);
  CHECK(warm(world, a).completion->diagnostics.hot);  // everything of it is resident still
}

TEST_CASE("what a kept frame holds is given back when a gang or a preparation needs it, before an object is") {
  for (const bool prepares : {false, true}) {
    CAPTURE(prepares);
    arenas::BudgetLimits limits;
    limits.global_bytes = 4 * kPage;  // a's object and its frame, b's object of two pages
    World world({.limits = limits, .hot = true});
    SessionState& a = world.bind(make_chain(1));
    SessionState& b = world.bind(make_plan({{.bytes = 2 * kPage}}, {{0}}));
    warm(world, a);
    REQUIRE(world.policy().hot().slots.filled() == 1);
    const Handle handle = prepares ? world.prepare(b) : world.run(b, {.execution_bytes = 1});
    world.drain();
    CHECK(handle.succeeded());
    if (prepares) CHECK(world.state(a, 0) == Residency::resident);
  }
}

TEST_CASE("an eviction waits for the hot run that relies on the session; new runs of it go cold and queue by age") {
  World world({.limits = limit(Domain::prepared, 3 * kPage), .hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(2), {{0, 1}}));
  warm(world, a);
  const Handle hot = world.run(a);
  world.start_hot();
  const Handle cold = world.run(b);
  CHECK(world.published() == 0);
  CHECK_FALSE(a.gate.is_open());  // left closed
  const Handle younger = world.run(a);
  CHECK(world.published() == 0);
  world.take_log();
  world.finish_hot();
  CHECK(hot.succeeded());
  CHECK(world.take_log().front().starts_with("evict a"));
  world.drain();
  CHECK(cold.succeeded());
  CHECK(younger.succeeded());
  CHECK_FALSE(younger.completion->diagnostics.hot);
}

TEST_CASE("published before its session lost something: it is handed back, and runs cold in its turn") {
  World world({.limits = limit(Domain::prepared, 3 * kPage), .hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(2), {{0, 1}}));
  warm(world, a);
  const Handle handed_back = world.run(a);
  const Handle cold = world.run(b);
  CHECK_FALSE(a.gate.is_open());
  world.take_log();
  world.start_hot();
  CHECK(contains(world.take_log(), "cold 2"));
  world.drain();
  CHECK(handed_back.succeeded());
  CHECK_FALSE(handed_back.completion->diagnostics.hot);
  CHECK(cold.succeeded());
}

TEST_CASE("a session isn't closed while a run that was handed back is on its way to the policy") {
  World world({.limits = limit(Domain::prepared, 3 * kPage), .hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(2), {{0, 1}}));
  warm(world, a);
  const Handle handed_back = world.run(a);
  const Handle cold = world.run(b);
  world.start_hot();
  const Handle closed = world.close(a);
  CHECK_FALSE(closed.done());
  world.hand_back();
  CHECK_FALSE(closed.done());
  world.drain();
  CHECK(handed_back.succeeded());
  CHECK(cold.succeeded());
  CHECK(closed.done());
}

TEST_CASE("cancelled while it is handed back: it ends as cancelled, and never starts") {
  World world({.limits = limit(Domain::prepared, 3 * kPage), .hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(2), {{0, 1}}));
  warm(world, a);
  const Handle handed_back = world.run(a);
  const Handle cold = world.run(b);
  world.start_hot();
  world.cancel(handed_back);  // nobody has it: not the slots, and not yet the policy
  CHECK_FALSE(handed_back.done());
  world.take_log();
  world.hand_back();
  REQUIRE(handed_back.done());
  CHECK(handed_back.error().kind == ErrorKind::cancelled);
  world.drain();
  CHECK_FALSE(contains(world.take_log(), "segment 2.0"));
  CHECK(cold.succeeded());
}

TEST_CASE("a session that runs hot is passed over while another one has something that may go") {
  World world({.limits = limit(Domain::prepared, 4 * kPage), .hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_chain(2));
  SessionState& c = world.bind(make_chain(1));
  warm(world, b);
  warm(world, a);
  const Handle hot = world.run(a);
  world.start_hot();
  world.take_log();
  const Handle cold = world.run(c);
  const Log log = world.take_log();
  CHECK((contains(log, "evict b0") || contains(log, "evict b1")));
  CHECK(a.gate.is_open());
  world.drain();
  CHECK(hot.completion->diagnostics.hot);
  CHECK(cold.succeeded());
}

// b has used its objects last; but another run of a, between two tokens, is expected for eight times as long as the
// last one was to take.
TEST_CASE("a session that is expected to run hot again keeps what it has; once it isn't, it goes in its turn") {
  constexpr uint64_t kDays = uint64_t(1) << 50;
  for (const uint64_t predicted_ns : {kDays, uint64_t(1)}) {
    CAPTURE(predicted_ns);
    World world({.limits = limit(Domain::prepared, 4 * kPage), .hot = true, .hot_predicted_ns = predicted_ns});
    SessionState& a = world.bind(make_chain(2));
    SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(2), {{0}, {1}, {0}, {1}, {0}, {1}, {0}, {1}}));
    SessionState& c = world.bind(make_chain(3));
    warm(world, a);
    CHECK(warm(world, a).completion->diagnostics.hot);
    warm(world, b);
    world.take_log();
    const Handle cold = world.run(c);  // two gangs make room; what is read ahead evicts nobody
    const Log log = world.take_log();
    const bool expected = predicted_ns == kDays;
    for (const char* const line : {"evict b0", "evict b1"}) CHECK(contains(log, line) == expected);
    for (const char* const line : {"evict a0", "evict a1"}) CHECK(contains(log, line) == !expected);
    CHECK_FALSE(contains(log, "read c2.0 prefetch"));
    CHECK(a.gate.is_open() == expected);
    const Handle next = world.run(a);
    CHECK(world.published() == int(expected));
    world.drain();
    CHECK(cold.succeeded());
    CHECK(next.succeeded());
  }
}

TEST_CASE("the scheduler is told when something cold lives, and when nothing does any more") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_chain(1));
  const Handle first = world.run(a);
  CHECK(world.cold_lives());
  world.drain();
  CHECK_FALSE(world.cold_lives());
  const Handle hot = world.run(a);
  world.start_hot();
  CHECK_FALSE(world.cold_lives());
  const Handle cold = world.run(b);
  CHECK(world.cold_lives());
  world.load(b, 0);
  world.segment(cold);
  CHECK(cold.succeeded());
  CHECK_FALSE(world.cold_lives());
  world.finish_hot();
  CHECK(first.succeeded());
  CHECK(hot.succeeded());
}

TEST_CASE("lost and prepared again, a session runs hot again with the frame it kept") {
  World world({.limits = limit(Domain::prepared, 2 * kPage), .hot = true});
  SessionState& a = world.bind(make_chain(2));
  SessionState& b = world.bind(make_chain(2));
  warm(world, a);
  warm(world, b);
  CHECK_FALSE(a.gate.is_open());
  CHECK_FALSE(warm(world, a).completion->diagnostics.hot);
  CHECK(a.gate.is_open());
  CHECK(warm(world, a).completion->diagnostics.hot);
  warm(world, b);
  const Handle prepared = world.prepare(a);
  world.drain();
  CHECK(prepared.succeeded());
  CHECK(a.gate.is_open());
  CHECK(warm(world, a).completion->diagnostics.hot);
}

TEST_CASE("a published run is cancelled at once; its frame stays") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(1));
  warm(world, a);
  const Handle run = world.run(a);
  world.cancel(run);
  REQUIRE(run.done());
  CHECK(run.error().kind == ErrorKind::cancelled);
  CHECK(world.published() == 0);
  CHECK(warm(world, a).completion->diagnostics.hot);
}

TEST_CASE("a session closes when its hot runs have ended, with the frames that it kept") {
  World world({.hot = true});
  SessionState& a = world.bind(make_chain(1));
  warm(world, a);
  const Handle first = world.run(a), second = world.run(a);
  world.start_hot();
  const Handle closed = world.close(a);
  CHECK_FALSE(closed.done());
  world.finish_hot();
  CHECK_FALSE(closed.done());
  world.start_hot();
  world.finish_hot();
  CHECK(closed.done());
  CHECK(first.succeeded());
  CHECK(second.succeeded());
  CHECK(world.policy().hot().slots.filled() == 0);
}

// Three sessions of which two fit, hot and cold runs, preparations and cancels, in random orders; what must always hold
// is checked at every event.
TEST_CASE("hot and cold runs at random: everything ends, nothing is evicted under a run") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return size_t(random() % n); };
    arenas::BudgetLimits limits = limit(Domain::prepared, (4 + below(4)) * kPage);
    limits.domain_bytes[Domain::execution] = (1 + below(4)) * kPage;
    World world({.limits = limits, .discards_later = below(2) == 0, .hot = true});
    std::vector<SessionState*> sessions;
    for (int i = 0; i < 3; ++i) sessions.push_back(&world.bind(make_chain(3)));
    std::vector<Handle> handles;
    for (int step = 0; step < 60; ++step) {
      const size_t what = below(8);
      if (what == 0 && handles.size() < 24) {
        handles.push_back(world.run(*sessions[below(3)]));
      } else if (what == 1 && below(6) == 0) {
        handles.push_back(world.prepare(*sessions[below(3)]));
      } else if (what == 2 && !handles.empty() && below(4) == 0) {
        world.cancel(handles[below(handles.size())]);
      } else if (const std::vector<Event> events = world.possible(); !events.empty()) {
        world.apply(events[below(events.size())]);
      }
    }
    world.drain(below);
    for (const Handle& handle : handles) CHECK(handle.done());
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
