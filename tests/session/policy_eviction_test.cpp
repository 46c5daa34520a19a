// Eviction: who goes first, who never goes, and what waits until pages are back.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;

namespace {

// Reads of `passes` runs over a chain, in a room for some of its objects.
size_t reads_of(EvictOrder order, int objects, int room, int passes) {
  World world({.limits = limit(Domain::prepared, uint64_t(room) * kPage)});
  SessionState& a = world.bind(make_chain(objects), {.mode = Mode::on_demand, .evict_order = order});
  size_t reads = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const Handle run = world.run(a);
    world.drain();
    CHECK(run.succeeded());
    const Log log = world.take_log();
    reads +=
        size_t(std::count_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("read"); }));
  }
  return reads;
}

}  // namespace

TEST_SUITE_BEGIN("policy_eviction");

TEST_CASE("on a cyclic walk the farthest next use goes; the least recent use would lose everything") {
  CHECK(reads_of(EvictOrder::lru, 16, 8, 10) == 160);
  CHECK(reads_of(EvictOrder::next_use, 16, 8, 10) <= 100);
  CHECK(reads_of(EvictOrder::lru, 16, 15, 10) == 160);
  CHECK(reads_of(EvictOrder::next_use, 16, 15, 10) <= 40);
  CHECK(reads_of(EvictOrder::next_use, 16, 16, 10) == 16);
}

TEST_CASE("objects of sessions without a live run go first, the least recently used foremost") {
  World world({.limits = limit(Domain::prepared, 6 * kPage)});
  SessionState& a = world.bind(make_chain(4), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(4), {.mode = Mode::on_demand});
  const Handle idle = world.run(a);
  world.drain();
  world.take_log();
  const Handle run = world.run(b);
  world.drain();
  Log evicted;
  for (const std::string& line : world.take_log()) {
    if (line.starts_with("evict")) evicted.push_back(line);
  }
  CHECK(evicted == Log{"evict a0", "evict a1"});
  CHECK(run.succeeded());
}

TEST_CASE("what a created segment needs is pinned before it is asked for") {
  // Segment 1 needs a0 again, and room that only a0 or a1 could give: a1 goes.
  World world({.limits = limit(Domain::prepared, 3 * kPage)});
  SessionState& a = world.bind(make_plan(std::vector<ObjectSpec>(4), {{0, 1}, {0, 2, 3}}), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.load(a, 0);
  world.load(a, 1);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log() == Log{"evict a1", "read a2.0 critical", "read a3.0 critical", "segment 1.1"});
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("pages that go back later: no more is evicted than is needed, and nobody is read before they are gone") {
  World world({.limits = limit(Domain::prepared, 4 * kPage), .discards_later = true});
  SessionState& a = world.bind(make_chain(6), {.mode = Mode::on_demand, .evict_order = EvictOrder::lru});
  world.run(a);
  world.drain();
  world.take_log();
  const Handle second = world.run(a);  // a0 and a1 are not there any more
  Log log = world.take_log();
  const auto evictions = [](const Log& lines) {
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) { return line.starts_with("evict"); });
  };
  CHECK(evictions(log) == 1);
  CHECK(std::none_of(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("read"); }));
  const Handle other = world.run(a);  // an event that gives nothing back evicts nothing more
  CHECK(world.take_log().empty());
  world.discard();
  log = world.take_log();
  CHECK(log.front() == "read a0.0 critical");
  CHECK(evictions(log) <= 1);
  world.drain();
  CHECK(second.succeeded());
  CHECK(other.succeeded());
}

TEST_CASE("an object that is asked for while it goes waits for its pages, then loads again") {
  World world({.limits = limit(Domain::prepared, 2 * kPage), .discards_later = true});
  SessionState& a = world.bind(make_chain(3), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(2), {.mode = Mode::on_demand});
  world.run(a);
  world.drain();
  const Handle evictor = world.run(b);
  Log log = world.take_log();
  const auto gone =
      std::find_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("evict a"); });
  REQUIRE(gone != log.end());
  const Handle again = world.run(a);
  world.drain();
  CHECK(evictor.succeeded());
  CHECK(again.succeeded());
  CHECK(world.policy().counters().rematerialised > 0);
}

TEST_CASE("a lowered limit holds for what is asked for next") {
  World world({.limits = limit(Domain::prepared, 6 * kPage)});
  SessionState& a = world.bind(make_chain(6), {.mode = Mode::on_demand});
  world.run(a);
  world.drain();
  world.take_log();
  world.set_limits(limit(Domain::prepared, 3 * kPage));
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  SessionState& b = world.bind(make_chain(2), {.mode = Mode::on_demand});
  const Handle other = world.run(b);
  world.drain();
  CHECK(other.succeeded());
  CHECK(world.budget().usage()[Domain::prepared].live_bytes <= 3 * kPage);
}

TEST_CASE("a session closes when nothing of it is on its way, and gives every byte back") {
  World world({.discards_later = true});
  SessionState& a = world.bind(make_chain(3));
  const Handle run = world.run(a);
  const Handle closed = world.close(a);
  CHECK_FALSE(closed.done());
  world.load(a, 0);
  world.load(a, 1);
  world.segment(run);
  world.segment(run);
  world.load(a, 2);
  CHECK_FALSE(closed.done());
  world.segment(run);
  CHECK(run.succeeded());
  CHECK(closed.succeeded());
  CHECK(world.budget().audit().empty());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
