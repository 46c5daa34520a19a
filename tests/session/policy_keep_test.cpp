// Evicted objects that are asked for before their pages have begun to go: who has them back, and who waits.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

bool contains(const Log& log, const std::string& line) { return std::find(log.begin(), log.end(), line) != log.end(); }

// a0 is used first and last; between them it is pinned by nobody.
PlanPointer first_and_last() { return make_plan(std::vector<ObjectSpec>(2), {{0}, {1}, {1}, {1}, {0}}); }

// An elder over `first_and_last` has run its first segment, and a younger one's gang has taken a0, whose pages are
// still there.
struct TakenForYounger {
  World world{{.limits = limit(Domain::prepared, 2 * kPage), .discards_later = true}};
  SessionState& a = world.bind(first_and_last(), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle elder = world.run(a), younger = world.run(b);

  TakenForYounger() {
    world.load(a, 0);
    world.load(a, 1);
    world.segment(elder);
    CHECK(contains(world.take_log(), "evict a0"));
    CHECK(world.state(a, 0) == Residency::evicting);
    world.segment(elder);
  }
};

}  // namespace

TEST_SUITE_BEGIN("policy_keep");

TEST_CASE("an elder has back what went for a younger one's gang, and nothing is read") {
  TakenForYounger given;
  World& world = given.world;
  world.take_log();
  world.segment(given.elder);
  CHECK(world.take_log() == Log{"keep a0", "segment 1.4"});
  CHECK(world.state(given.a, 0) == Residency::resident);
  CHECK(world.policy().counters().evictions == 0);
  CHECK(world.policy().counters().kept == 1);
  world.drain();
  CHECK(given.elder.succeeded());
  CHECK(given.younger.succeeded());
  CHECK(given.a.store->generation(0) == 1);
}

TEST_CASE("once the discard has begun it waits for the object to be absent, then loads it again") {
  TakenForYounger given;
  World& world = given.world;
  world.begin_discard();
  world.take_log();
  world.segment(given.elder);
  CHECK(world.take_log().empty());
  CHECK(world.state(given.a, 0) == Residency::evicting);
  world.discard();
  CHECK(contains(world.take_log(), "read a0.0 critical"));
  world.drain();
  CHECK(given.elder.succeeded());
  CHECK(given.younger.succeeded());
  CHECK(given.a.store->generation(0) == 2);
}

TEST_CASE("a younger invocation does not have back what went for an elder's gang") {
  World world({.limits = limit(Domain::prepared, 3 * kPage), .discards_later = true});
  SessionState& a = world.bind(first_and_last(), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(2), {{0}, {0}, {1}}), {.mode = Mode::on_demand});
  const Handle elder = world.run(b), younger = world.run(a);
  world.load(b, 0);
  world.load(a, 0);
  world.load(a, 1);
  world.segment(younger);
  world.take_log();
  world.segment(elder);
  CHECK(world.take_log() == Log{"evict a0"});
  world.cancel(elder);  // nobody needs the room any more, but it was given
  for (int segment = 0; segment < 2; ++segment) world.segment(younger);
  CHECK_FALSE(contains(world.take_log(), "keep a0"));
  CHECK(world.state(a, 0) == Residency::evicting);
  world.drain();
  CHECK(younger.succeeded());
  CHECK(a.store->generation(0) == 2);
}

TEST_CASE("an invocation has back what went for its own gang, if room came from elsewhere") {
  World world({.limits = limit(Domain::prepared, 2 * kPage), .discards_later = true});
  SessionState& a =
      world.bind(make_plan(std::vector<ObjectSpec>(3), {{0}, {1}, {2}, {2}, {0}}), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.load(a, 0);
  world.load(a, 1);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log() == Log{"evict a0"});
  CHECK(world.set_limits({}).succeeded());
  world.load(a, 2);
  world.segment(run);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log() == Log{"keep a0", "segment 1.4"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(a.store->generation(0) == 1);
}

TEST_CASE("what a caller evicted, trimmed or had go for a lowered limit is given back, whoever asks for it") {
  for (int how = 0; how < 3; ++how) {
    CAPTURE(how);
    World world({.discards_later = true});
    SessionState& a = world.bind(make_chain(2), {.mode = Mode::on_demand});
    const Handle first = world.run(a);
    world.drain();
    REQUIRE(first.succeeded());
    world.take_log();
    const Handle asked = how == 0   ? world.evict_all(a)
                         : how == 1 ? world.trim(kPage)
                                    : world.set_limits(limit(Domain::prepared, kPage));
    const Log log = world.take_log();
    REQUIRE(contains(log, "evict a0"));
    CHECK_FALSE(asked.done());
    const Handle run = world.run(a);
    CHECK(world.take_log().empty());
    world.drain();
    CHECK(asked.succeeded());
    CHECK(run.succeeded());
    CHECK(a.store->generation(0) == 2);
  }
}

TEST_CASE("what stays makes its session ready to run hot again") {
  World world({.limits = limit(Domain::prepared, 2 * kPage), .discards_later = true, .hot = true});
  SessionState& a = world.bind(first_and_last(), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle elder = world.run(a), younger = world.run(b);
  world.load(a, 0);
  world.load(a, 1);
  CHECK(a.gate.is_open());
  world.segment(elder);
  CHECK_FALSE(a.gate.is_open());
  world.segment(elder);
  world.segment(elder);
  CHECK(a.gate.is_open());
  world.drain();
  CHECK(younger.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
