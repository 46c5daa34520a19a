// Cancellation and abandoned loads: a handle never waits for a read; what nobody wants any more goes; who comes back in
// time gets it.
#include <doctest/doctest.h>

#include <algorithm>

#include "ompipe/io/limits.h"
#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

bool cancelled(const Handle& handle) { return handle.done() && handle.error().kind == ErrorKind::cancelled; }

uint64_t live(const World& world, Domain domain) { return world.budget().usage()[domain].live_bytes; }

}  // namespace

TEST_SUITE_BEGIN("policy_cancel");

TEST_CASE("before it has started") {
  World world({.limits = limit(Domain::execution, kPage)});
  SessionState& a = world.bind(make_chain(2));
  const Handle first = world.run(a), second = world.run(a), third = world.run(a);
  world.take_log();
  world.cancel(second);
  CHECK(cancelled(second));
  CHECK(world.take_log().empty());
  world.drain();
  CHECK(first.succeeded());
  CHECK(third.succeeded());
}

TEST_CASE("while its reads are queued: terminal at once, they are withdrawn, bytes and tokens come back") {
  World world;
  SessionState& a = world.bind(make_plan({{.aux_reads = 1}, {}}, {{0}, {1}}), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.take_log();
  world.cancel(run);
  CHECK(cancelled(run));
  CHECK(run.completion->diagnostics.suppressed == std::vector<std::string>{"s0", "s1"});
  CHECK(world.take_log() == Log{"take back 1.1", "take back 1.0", "withdraw a0.aux", "withdraw a0.0", "withdraw a1.0",
                                "open a0.0 noop", "open a1.0 noop"});
  CHECK(live(world, Domain::execution) == 0);
  CHECK(live(world, Domain::preparation) == kPage);  // the aux bytes, until the no-op has reported
  world.pack(a, 0);
  CHECK(world.take_log() == Log{"publish a0", "give up a0"});
  CHECK(world.state(a, 0) == Residency::absent);
  CHECK(live(world, Domain::preparation) == 0);
  const Handle again = world.run(a);
  CHECK(world.take_log() == Log{"read a0.aux critical", "read a0.0 critical", "segment 2.0"});  // a1 has to go first
  world.drain();
  CHECK(again.succeeded());
  CHECK(a.store->generation(1) == 2);
}

TEST_CASE("while a read is in flight: terminal at once, its bytes go when it arrives") {
  World world;
  SessionState& a = world.bind(make_chain(2), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.begin_read(a, 0);
  world.take_log();
  world.cancel(run);
  CHECK(cancelled(run));
  CHECK(world.take_log() == Log{"take back 1.1", "take back 1.0", "withdraw a1.0", "open a1.0 noop"});
  CHECK(live(world, Domain::prepared) == 2 * kPage);
  world.pack(a, 1);
  CHECK(live(world, Domain::prepared) == kPage);
  world.read(a, 0);
  CHECK(world.take_log() == Log{"publish a1", "give up a1", "open a0.0 noop"});
  CHECK(live(world, Domain::preparation) == 0);
  world.pack(a, 0);
  CHECK(world.take_log() == Log{"publish a0", "give up a0"});
  CHECK(live(world, Domain::prepared) == 0);
  CHECK(world.state(a, 0) == Residency::absent);
  world.drain();
}

TEST_CASE("a load in flight that is asked for again goes on as if nothing had been") {
  World world;
  SessionState& a = world.bind(make_plan({{.bytes = 2 * kPage, .chunks = 2}}, {{0}}));
  const Handle run = world.run(a);
  world.begin_read(a, 0, 0);
  world.begin_read(a, 0, 1);
  world.cancel(run);
  world.take_log();
  const Handle again = world.run(a);
  CHECK(world.take_log() == Log{"segment 2.0"});
  world.read(a, 0, 1);
  world.read(a, 0, 0);
  CHECK(world.take_log() == Log{"open a0.1 critical", "open a0.0 critical"});
  world.drain();
  CHECK(again.succeeded());
  CHECK(a.store->generation(0) == 1);
}

TEST_CASE("one that has lost a read is not asked for again before it is gone") {
  World world;
  SessionState& a = world.bind(make_plan({{.bytes = 2 * kPage, .chunks = 2}}, {{0}}));
  const Handle run = world.run(a);
  world.begin_read(a, 0, 0);
  world.cancel(run);  // withdraws the second
  world.take_log();
  const Handle again = world.run(a);
  CHECK(world.take_log().empty());
  world.pack(a, 0, 1);
  CHECK(world.take_log().empty());
  world.read(a, 0, 0);
  world.pack(a, 0, 0);
  CHECK(world.take_log() ==
        Log{"open a0.0 noop", "publish a0", "give up a0", "read a0.0 critical", "segment 2.0", "read a0.1 critical"});
  world.drain();
  CHECK(again.succeeded());
}

TEST_CASE("while a prepack runs: it runs to its end, and an object that is whole then stays") {
  World world;
  SessionState& a = world.bind(make_plan({{}, {.bytes = 2 * kPage, .chunks = 2}}, {{0, 1}}));
  const Handle run = world.run(a);
  world.read(a, 0);
  world.start_pack(a, 0);
  world.read(a, 1, 0);
  world.start_pack(a, 1, 0);
  world.take_log();
  world.cancel(run);
  CHECK(cancelled(run));
  CHECK(world.take_log() == Log{"take back 1.0", "withdraw a1.1", "open a1.1 noop"});
  world.finish_pack(a, 0);
  CHECK(world.take_log() == Log{"publish a0"});
  CHECK(world.state(a, 0) == Residency::resident);
  world.pack(a, 1, 1);
  CHECK(world.state(a, 1) == Residency::preparing);
  world.finish_pack(a, 1, 0);
  CHECK(world.take_log() == Log{"publish a1", "give up a1"});
  CHECK(world.state(a, 1) == Residency::absent);
  world.drain();
}

TEST_CASE("a chunk that is being packed when nobody wants its object takes no next one, unless somebody comes") {
  for (const bool comes : {false, true}) {
    World world({.limits = limit(Domain::preparation, kPage)});
    SessionState& a = world.bind(make_plan({{.bytes = 2 * kPage, .chunks = 2}}, {{0}}));
    const Handle run = world.run(a);
    world.read(a, 0, 0);
    world.start_pack(a, 0, 0);
    world.cancel(run);
    std::optional<Handle> again;
    if (comes) again = world.run(a);
    world.take_log();
    world.finish_pack(a, 0, 0);
    if (comes) {
      CHECK(world.take_log() == Log{"read a0.1 critical"});
    } else {
      CHECK(world.take_log() == Log{"publish a0", "give up a0"});
    }
    world.drain();
    if (comes) CHECK(again->succeeded());
    CHECK(world.state(a, 0) == (comes ? Residency::resident : Residency::absent));
  }
}

TEST_CASE("between segments, and while one runs: it ends with the one that runs") {
  World world;
  SessionState& a = world.bind(make_chain(3));
  for (ObjectId object : {0, 1, 2}) {
    if (object == 0) world.prepare(a);
    world.load(a, object);
  }
  const Handle between = world.run(a);
  world.segment(between);
  world.take_log();
  world.cancel(between);
  CHECK(cancelled(between));
  CHECK(world.take_log() == Log{"take back 1.2", "take back 1.1"});
  CHECK(a.objects[1].pins + a.objects[2].pins == 0);
  const Handle running = world.run(a);
  world.drain();
  CHECK(running.succeeded());
  const Handle held = world.run(a);
  world.start_segment(held);
  world.take_log();
  world.cancel(held);
  CHECK_FALSE(held.done());
  CHECK(world.take_log() == Log{"take back 3.1"});
  world.finish_segment(held);
  CHECK(cancelled(held));
  world.drain();
}

TEST_CASE("one of two that share a producer: it goes on; the last one: it goes") {
  World world;
  SessionState& a = world.bind(make_chain(2));
  const Handle first = world.run(a), second = world.run(a);
  world.take_log();
  world.cancel(first);
  CHECK(cancelled(first));
  CHECK(world.take_log() == Log{"take back 1.1", "take back 1.0"});
  world.load(a, 0);
  CHECK(world.take_log() == Log{"open a0.0 critical", "publish a0"});
  world.cancel(second);
  CHECK(cancelled(second));
  CHECK(world.take_log() == Log{"take back 2.1", "take back 2.0", "withdraw a1.0", "open a1.0 noop"});
  CHECK(world.state(a, 0) == Residency::resident);
  world.drain();
}

TEST_CASE("what a live run will use later stays wanted") {
  World world({.publish_tokens = 16});
  SessionState& a = world.bind(make_chain(6), {.look_ahead = {.segments = 3}});
  const Handle ahead = world.run(a);  // reads five
  world.load(a, 0);
  world.segment(ahead);
  world.load(a, 1);
  world.segment(ahead);
  const Handle behind = world.run(a, {.execution_bytes = kPage});
  world.take_log();
  world.cancel(ahead);
  CHECK(world.take_log() == Log{"take back 1.3", "take back 1.2"});  // the other one comes to them
  world.cancel(behind);
  CHECK(world.policy().counters().abandoned == 4);
  world.drain();
}

TEST_CASE("an eager preparation that is cancelled while a run needs some of it") {
  World world;
  SessionState& a = world.bind(make_chain(4), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(2));
  const Handle prepared = world.prepare(a), other = world.prepare(b);
  const Handle run = world.run(a);
  world.take_log();
  world.cancel(prepared);
  CHECK(cancelled(prepared));
  CHECK(world.take_log().empty());  // the run will come to all of it
  world.cancel(run);
  CHECK(cancelled(run));
  const Log log = world.take_log();
  CHECK(std::count_if(log.begin(), log.end(), [](const auto& line) { return line.starts_with("withdraw a"); }) == 4);
  CHECK(std::count_if(log.begin(), log.end(), [](const auto& line) { return line.starts_with("withdraw b"); }) == 0);
  world.drain();
  CHECK(other.succeeded());
}

TEST_CASE("a preparation that waits for its turn still wants what is on its way") {
  arenas::BudgetLimits limits = limit(Domain::prepared, 3 * kPage);
  World world({.limits = limits});
  SessionState& a = world.bind(make_chain(3), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(3), {.mode = Mode::on_demand});
  const Handle holds = world.prepare(b);
  const Handle run = world.run(a), prepared = world.prepare(a);
  const uint64_t abandoned = world.policy().counters().abandoned;  // for the run, which is refused
  world.cancel(run);
  CHECK(cancelled(run));
  CHECK(world.policy().counters().abandoned == abandoned);
  world.drain();
  CHECK(holds.succeeded());
  CHECK(prepared.done());
}

TEST_CASE("slot and gates are withheld until the segments that were taken back have run as no-ops") {
  World world;
  SessionState& a = world.bind(make_chain(1), {.mode = Mode::on_demand});
  std::vector<Handle> runs;
  for (int i = 0; i < schedule::kMaxSlots + 1; ++i) runs.push_back(world.run(a));
  world.begin_read(a, 0);
  world.take_log();
  for (int i = 0; i < schedule::kMaxSlots; ++i) world.cancel(runs[size_t(i)]);
  CHECK_FALSE(runs.back().done());
  Log log = world.take_log();
  CHECK(std::none_of(log.begin(), log.end(), [](const auto& line) { return line.starts_with("segment"); }));
  world.read(a, 0);
  world.pack(a, 0);
  CHECK(world.take_log() == Log{"open a0.0 noop", "publish a0", "give up a0"});
  world.segment(runs[2]);
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 9.0"});
  world.drain();
  CHECK(runs.back().succeeded());
}

TEST_CASE("no-ops are critical and open beside T + 1 prepacks that are unfinished") {
  World world({.threads = 1});
  SessionState& a = world.bind(make_chain(5));
  const Handle prepared = world.prepare(a);
  for (const ObjectId object : {0, 1, 2, 3}) world.read(a, object);
  CHECK(world.opened_unfinished() == 2);
  world.take_log();
  world.cancel(prepared);
  CHECK(world.take_log() == Log{"withdraw a4.0", "open a2.0 noop", "open a3.0 noop", "open a4.0 noop"});
  world.pack(a, 0);
  CHECK(world.state(a, 0) == Residency::resident);
  CHECK(world.state(a, 2) == Residency::loading);
  world.drain();
  CHECK(world.state(a, 1) == Residency::resident);
  CHECK(world.state(a, 2) == Residency::absent);
}

TEST_CASE("a run that is cancelled while its slices are read: terminal at once; what is in flight arrives") {
  World world;
  SessionState& a = world.bind(
      make_plan({{.bytes = kTableSlices * io::kSliceBytes, .chunks = 4, .staging_bytes = 0, .table = true}}, {{0}}),
      {.mode = Mode::on_demand});
  const Handle run = world.run(a, {.slices = {1, 2, 3}});
  world.begin_read(a, 0, 2);
  world.take_log();
  world.cancel(run);
  CHECK(cancelled(run));
  CHECK(world.take_log() == Log{"take back 1.0", "withdraw a0.1", "withdraw a0.3", "open a0.1 noop", "open a0.3 noop"});
  CHECK(live(world, Domain::preparation) == 3 * io::kSliceBytes);
  world.pack(a, 0, 1);
  world.pack(a, 0, 3);
  const Handle closing = world.close(a);
  CHECK_FALSE(closing.done());  // a device still writes
  world.read(a, 0, 2);
  world.pack(a, 0, 2);
  CHECK(live(world, Domain::preparation) == 0);
  world.segment(run);
  CHECK(closing.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
