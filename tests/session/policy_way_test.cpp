// A refused gang and the speculative loads in its way: what has arrived is packed next, the rest is given up, and no
// more than it takes.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

TEST_SUITE_BEGIN("policy_way");

TEST_CASE("a load that has not arrived is given up, the one needed last first, and only as many as it takes") {
  World world({.limits = limit(Domain::prepared, 5 * kPage)});
  SessionState& a = world.bind(make_chain(8));
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0", "read a1.0 critical", "segment 1.1",
                                "read a2.0 prefetch", "read a3.0 prefetch", "read a4.0 prefetch"});
  const Handle other = world.run(b);
  CHECK(world.take_log() == Log{"withdraw a4.0", "open a4.0 noop"});
  world.pack(a, 4);
  CHECK(world.take_log() == Log{"publish a4", "give up a4", "read b0.0 critical", "segment 2.0"});
  CHECK(world.policy().counters().abandoned == 1);
  world.drain();
  CHECK(run.succeeded());
  CHECK(other.succeeded());
}

TEST_CASE("one whose chunks have all arrived is packed next, and can be evicted then") {
  World world({.limits = limit(Domain::prepared, 5 * kPage)});
  SessionState& a = world.bind(make_chain(8));
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.read(a, 4);
  world.take_log();
  const Handle other = world.run(b);
  CHECK(world.take_log() == Log{"hurry a4.0"});
  world.pack(a, 4);
  CHECK(world.take_log() == Log{"publish a4", "evict a4", "read b0.0 critical", "segment 2.0"});
  CHECK(world.policy().counters().abandoned == 0);
  world.drain();
  CHECK(run.succeeded());
  CHECK(other.succeeded());
}

TEST_CASE("one of which a chunk is missing is given up, though another was packed") {
  World world({.limits = limit(Domain::prepared, 4 * kPage)});
  SessionState& a = world.bind(make_plan({{}, {}, {.bytes = 2 * kPage, .chunks = 2}}, {{0}, {1}, {2}}));
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.read(a, 2, 0);
  world.pack(a, 2, 0);
  world.take_log();
  const Handle other = world.run(b);
  CHECK(world.take_log() == Log{"withdraw a2.1", "open a2.1 noop"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(other.succeeded());
}

TEST_CASE("a read in flight is thrown away when it arrives") {
  World world({.limits = limit(Domain::prepared, 3 * kPage)});
  SessionState& a = world.bind(make_chain(3));
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.begin_read(a, 2);
  world.take_log();
  const Handle other = world.run(b);
  CHECK(world.take_log().empty());
  world.read(a, 2);
  CHECK(world.take_log() == Log{"open a2.0 noop"});
  world.pack(a, 2);
  CHECK(world.take_log() == Log{"publish a2", "give up a2", "read b0.0 critical", "segment 2.0"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(other.succeeded());
}

TEST_CASE("nothing is given up in vain, nor for a gang that what is on its way out makes room for") {
  World world({.limits = limit(Domain::prepared, 5 * kPage), .discards_later = true});
  SessionState& a = world.bind(make_chain(8));
  SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(4), {{0, 1, 2, 3}}), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.take_log();
  const Handle other = world.run(b);  // needs four pages; two of the five are pinned
  CHECK(world.take_log().empty());
  world.load(a, 0);
  world.take_log();
  world.segment(run);  // a0 may go now, and a2 and a3 are needed: one page is missing
  CHECK(world.policy().counters().abandoned == 0);
  world.drain();
  CHECK(run.succeeded());
  CHECK(other.succeeded());
}

TEST_CASE("what the refused gang's own segment needs is not given up for it") {
  // Segment 2 needs a2, which is on its way, and a5, which was not looked at yet.
  World world({.limits = limit(Domain::prepared, 4 * kPage)});
  SessionState& a =
      world.bind(make_plan(std::vector<ObjectSpec>(6), {{0}, {1}, {2, 5}, {3}}), {.look_ahead = {.segments = 1}});
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  CHECK(a.store->generation(2) == 1);
}

TEST_CASE("staging and tokens count like bytes") {
  for (const bool tokens : {false, true}) {
    CAPTURE(tokens);
    World world({.load_tokens = tokens ? 8 : 16,
                 .publish_tokens = 16,
                 .limits = tokens ? arenas::BudgetLimits() : limit(Domain::preparation, 4 * kPage)});
    SessionState& a = world.bind(make_plan(std::vector<ObjectSpec>(2, {.bytes = 4 * kPage, .chunks = 4}), {{0}, {1}}));
    std::vector<ObjectId> needs{0, 1, 2, 3};
    if (tokens) needs.insert(needs.end(), {4, 5});  // four are kept for critical work
    SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(6), {needs}), {.mode = Mode::on_demand});
    const Handle prepared = world.prepare(a);
    world.take_log();
    const Handle run = world.run(b);
    const Log log = world.take_log();
    CHECK(std::count(log.begin(), log.end(), "withdraw a1.0") == 1);
    world.drain();
    CHECK(run.succeeded());
    CHECK(prepared.succeeded());
  }
}

TEST_CASE("a preparation whose load was given up begins again, and is done when all was published") {
  World world({.limits = limit(Domain::prepared, 4 * kPage)});
  SessionState& a = world.bind(make_chain(4), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle prepared = world.prepare(a);
  world.take_log();
  const Handle run = world.run(b);
  CHECK(world.take_log() == Log{"withdraw a3.0", "open a3.0 noop"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(prepared.succeeded());
  CHECK(a.store->generation(3) == 2);
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
