// Priority: which gate opens first, what holds speculation back, and promotion at every stage; the look-ahead window.
#include <doctest/doctest.h>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;

TEST_SUITE_BEGIN("policy_priority");

TEST_CASE("at most T + 1 prepacks are opened; critical gates go first, then the plan's order") {
  World world({.threads = 1});
  SessionState& a = world.bind(make_chain(6));
  const Handle run = world.run(a);
  world.take_log();
  for (const ObjectId object : {5, 4, 3, 2}) world.read(a, object);
  CHECK(world.take_log() == Log{"open a5.0 speculative", "open a4.0 speculative"});  // both slots: T + 1
  world.read(a, 1);
  world.read(a, 0);
  CHECK(world.take_log().empty());
  world.pack(a, 4);
  CHECK(world.take_log() == Log{"publish a4", "open a0.0 critical"});
  world.pack(a, 5);
  CHECK(world.take_log() == Log{"publish a5", "open a1.0 critical"});
  world.pack(a, 1);
  CHECK(world.take_log() == Log{"publish a1"});  // a0's body has not started
  world.start_pack(a, 0);
  CHECK(world.take_log() == Log{"open a2.0 speculative"});
  world.finish_pack(a, 0);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a speculative gate stays closed while a critical task could start") {
  World world({.threads = 4});
  SessionState& a = world.bind(make_chain(4));
  const Handle run = world.run(a);
  world.take_log();
  world.read(a, 0);
  world.read(a, 2);
  CHECK(world.take_log() == Log{"open a0.0 critical"});
  world.start_pack(a, 0);
  CHECK(world.take_log() == Log{"open a2.0 speculative"});
  world.finish_pack(a, 0);  // the first segment can start
  world.read(a, 3);
  CHECK(world.take_log() == Log{"publish a0"});
  world.start_segment(run);
  CHECK(world.take_log() == Log{"open a3.0 speculative"});
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a prefetch that a run reaches is promoted: the queued read") {
  World world;
  SessionState& a = world.bind(make_plan({{}, {}, {.aux_reads = 2}, {}}, {{0}, {1}, {2}, {3}}));
  const Handle run = world.run(a);
  world.load(a, 0);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log() ==
        Log{"promote a2.aux critical", "promote a2.aux critical", "promote a2.0 critical", "segment 1.2"});
  CHECK(world.policy().counters().promotions == 1);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a prefetch that a run reaches is promoted: the closed gate") {
  World world({.threads = 1});
  SessionState& a = world.bind(make_chain(3));
  SessionState& b = world.bind(make_plan(std::vector<ObjectSpec>(4), {{0, 1, 2, 3}}));
  const Handle run = world.run(a);
  world.prepare(b);
  for (const ObjectId object : {0, 1, 2, 3}) world.read(b, object);  // two are opened: T + 1
  world.read(a, 2);
  world.read(a, 0);
  world.take_log();
  world.pack(b, 0);
  world.pack(a, 0);
  CHECK(world.take_log() == Log{"publish b0", "open a0.0 critical", "publish a0"});
  world.start_segment(run);
  CHECK(world.take_log() == Log{"open b2.0 speculative"});  // before a2 in the plan's order
  world.finish_segment(run);
  CHECK(world.take_log() == Log{"segment 1.2"});
  world.pack(b, 1);
  CHECK(world.take_log() == Log{"publish b1", "open a2.0 critical"});  // before b3
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a prefetch that a run reaches is promoted: the opened prepack, unless it has started") {
  for (const bool started : {false, true}) {
    World world;
    SessionState& a = world.bind(make_plan({{}, {}, {.bytes = 2 * kPage, .chunks = 2}}, {{0}, {1}, {2}}));
    const Handle run = world.run(a);
    world.read(a, 2, 0);
    if (started) world.start_pack(a, 2, 0);
    world.load(a, 0);
    world.take_log();
    world.segment(run);
    if (started) {
      CHECK(world.take_log() == Log{"promote a2.1 critical", "segment 1.2"});
    } else {
      CHECK(world.take_log() == Log{"hurry a2.0", "promote a2.1 critical", "segment 1.2"});
    }
    world.drain();
    CHECK(run.succeeded());
  }
}

TEST_CASE("without inheritance a prefetch stays one") {
  World world;
  SessionState& a = world.bind(make_chain(3), {.inheritance = false});
  const Handle run = world.run(a);
  world.load(a, 0);
  world.take_log();
  world.segment(run);
  world.read(a, 2);
  CHECK(world.take_log() == Log{"segment 1.2", "open a2.0 speculative"});
  CHECK(world.policy().counters().promotions == 0);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a preparation's reads become critical when a run needs them") {
  World world;
  SessionState& a = world.bind(make_chain(4));
  const Handle prepared = world.prepare(a);
  CHECK(world.take_log() ==
        Log{"read a0.0 prefetch", "read a1.0 prefetch", "read a2.0 prefetch", "read a3.0 prefetch"});
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"promote a0.0 critical", "segment 1.0", "promote a1.0 critical", "segment 1.1"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(prepared.succeeded());
}

TEST_CASE("the window: a number of segments, of bytes, none at all, and never more than there is room for") {
  auto first_reads = [](const SessionOptions& options, const arenas::BudgetLimits& limits = {}) {
    World world({.limits = limits});
    SessionState& a = world.bind(make_chain(9), options);
    const Handle run = world.run(a);
    Log reads;
    for (const std::string& line : world.take_log()) {
      if (line.starts_with("read")) reads.push_back(line.substr(5, 2));
    }
    world.drain();
    CHECK(run.succeeded());
    return reads;
  };
  const Log all{"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"};
  const auto first = [&](size_t count) { return Log(all.begin(), all.begin() + ptrdiff_t(count)); };
  CHECK(first_reads({}) == first(9));
  CHECK(first_reads({.look_ahead = {.segments = 0}}) == first(2));
  CHECK(first_reads({.look_ahead = {.segments = 3}}) == first(5));
  CHECK(first_reads({.look_ahead = {.bytes = 4 * kPage}}) == first(6));
  CHECK(first_reads({.look_ahead = {.bytes = 4 * kPage - 1}}) == first(5));
  CHECK(first_reads({.mode = Mode::on_demand}) == first(2));
  CHECK(first_reads({}, limit(Domain::prepared, 4 * kPage)) == first(4));
  arenas::BudgetLimits reserve;
  reserve.global_bytes = 12 * kPage;  // two pages an object on its way, one of execution
  reserve.critical_reserve_bytes = 5 * kPage;
  CHECK(first_reads({}, reserve) == first(3));
}

TEST_CASE("the window moves on with the run and looks again after an eviction") {
  World world({.limits = limit(Domain::prepared, 3 * kPage)});
  SessionState& a = world.bind(make_chain(4), {.look_ahead = {.segments = 1}});
  const Handle run = world.run(a);
  CHECK(world.take_log() ==
        Log{"read a0.0 critical", "segment 1.0", "read a1.0 critical", "segment 1.1", "read a2.0 prefetch"});
  world.load(a, 0);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log() ==
        Log{"promote a2.0 critical", "segment 1.2"});  // no room for a3, and an eighth of it is none
  world.load(a, 1);
  world.take_log();
  world.segment(run);
  CHECK(world.take_log() == Log{"evict a1", "read a3.0 critical", "segment 1.3"});
  world.drain();
  CHECK(run.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
