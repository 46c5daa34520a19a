// Look-ahead under a residency limit: a window that grows and shrinks by what happens, and the few objects that make
// way when there is no room.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using store::Residency;

namespace {

size_t count(const Log& log, const std::string& start, const std::string& end = {}) {
  return size_t(std::count_if(log.begin(), log.end(),
                              [&](const std::string& line) { return line.starts_with(start) && line.ends_with(end); }));
}

// Every read arrives and is packed before the next segment starts.
void load_all(World& world, SessionState& session) {
  for (;;) {
    const std::vector<Event> events = world.possible();
    const auto next = std::find_if(events.begin(), events.end(), [](const Event& event) {
      return event.kind == Event::Kind::read || event.kind == Event::Kind::start_pack ||
             event.kind == Event::Kind::finish_pack;
    });
    if (next == events.end()) break;
    world.apply(*next);
    CHECK(session.ahead_bytes[Domain::prepared] <= session.plan->packed_bytes);
  }
}

// What one run reads and evicts after `passes` before it, with everything read as soon as it can be.
Log steady_run(const SessionOptions& options, int objects, int room, int passes = 4) {
  World world({.limits = limit(Domain::prepared, uint64_t(room) * kPage)});
  SessionState& a = world.bind(make_chain(objects), options);
  for (int pass = 0; pass <= passes; ++pass) {
    world.take_log();
    const Handle run = world.run(a);
    while (!run.done()) {
      load_all(world, a);
      world.segment(run);
    }
    CHECK(run.succeeded());
    CHECK(a.ahead_bytes[Domain::prepared] == 0);
  }
  return world.take_log();
}

}  // namespace

TEST_SUITE_BEGIN("policy_window");

TEST_CASE("a window stays between one segment and what the caller allows") {
  Window window(4);
  CHECK(window.segments() == Window::kFirst);
  for (int i = 0; i < 5; ++i) window.waited();
  CHECK(window.segments() == 4);
  window.no_room_beyond(7);
  CHECK(window.segments() == 4);
  window.no_room_beyond(3);
  CHECK(window.segments() == 3);
  window.no_room_beyond(0);
  CHECK(window.segments() == 1);
  window.waited();
  CHECK(window.segments() == 2);
  Window none(0);
  none.waited();
  none.no_room_beyond(3);
  CHECK(none.segments() == 0);
}

TEST_CASE("beyond the window nothing is created; it grows while compute waits for reads, and only then") {
  World world({.limits = limit(Domain::prepared, 20 * kPage)});
  SessionState& a = world.bind(make_chain(16));
  const Handle run = world.run(a);
  // The first segment waits: two are created, three lie in the window.
  CHECK(a.window.segments() == 3);
  CHECK(count(world.take_log(), "read") == 5);
  world.load(a, 0);
  world.load(a, 1);
  CHECK(count(world.take_log(), "read") == 0);
  world.segment(run);  // the second has all it needs
  CHECK(a.window.segments() == 3);
  CHECK(count(world.take_log(), "read a5.0 prefetch") == 1);
  world.segment(run);  // the third waits
  CHECK(a.window.segments() == 4);
  CHECK(world.take_log() == Log{"promote a3.0 critical", "segment 1.3", "read a6.0 prefetch", "read a7.0 prefetch"});
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("without a limit there is no window but the caller's") {
  World world({.load_tokens = 32, .publish_tokens = 32});
  SessionState& a = world.bind(make_chain(12));
  SessionState& b = world.bind(make_chain(12), {.look_ahead = {.segments = 4}});
  world.run(a);
  CHECK(count(world.take_log(), "read a") == 12);
  world.run(b);
  CHECK(count(world.take_log(), "read b") == 6);
  world.drain();
}

TEST_CASE("it shrinks to what there is room for") {
  World world({.limits = limit(Domain::prepared, 5 * kPage)});
  SessionState& a = world.bind(make_chain(12));
  world.run(a);
  CHECK(count(world.take_log(), "read") == 5);  // three segments ahead
  CHECK(a.window.segments() == 3);
  SessionState& b = world.bind(make_chain(12));
  const Handle other = world.run(b);
  CHECK(count(world.take_log(), "read") == 0);
  world.drain();
  CHECK(other.succeeded());
  CHECK(a.window.segments() < 3);
}

TEST_CASE("when residency is full a few objects with the farthest next use make way, the others stay") {
  const Log log = steady_run({}, 12, 8);
  const Log on_demand = steady_run({.mode = Mode::on_demand}, 12, 8);
  CHECK(count(log, "read", "prefetch") > 0);
  CHECK(count(on_demand, "read", "prefetch") == 0);
  // An eighth of eight pages is one object: that much more is read, no more.
  CHECK(count(log, "read") <= count(on_demand, "read") + 1);
  CHECK(count(log, "read") < 8);
}

TEST_CASE("where an eighth of the limit holds no object, none makes way") {
  CHECK(count(steady_run({}, 10, 7), "read", "prefetch") == 0);
}

TEST_CASE("look-ahead evicts what is used last, and only when what it has read before is reached") {
  World world({.limits = limit(Domain::prepared, 8 * kPage)});
  SessionState& a = world.bind(make_chain(12));
  const Handle run = world.run(a);
  for (int segment = 0; segment < 6; ++segment) {
    load_all(world, a);
    world.start_segment(run);
    load_all(world, a);
    if (segment == 5) break;
    world.finish_segment(run);
    CHECK(world.policy().counters().replaced == 0);
  }
  CHECK(a.resident == 8);
  CHECK(a.window.segments() == 1);
  CHECK(a.ahead_bytes[Domain::prepared] == kPage);
  world.take_log();
  world.finish_segment(run);
  // Segments 6 and 7 are created, and 8 is in the window; of 0 to 5, 5 is used last in the next run.
  CHECK(world.take_log() == Log{"segment 1.7", "evict a5", "read a8.0 prefetch"});
  CHECK(world.policy().counters().replaced == 1);
  CHECK(a.ahead_bytes[Domain::prepared] == kPage);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("least recent use says nothing about the next one: under it look-ahead evicts nothing") {
  World world({.limits = limit(Domain::prepared, 8 * kPage)});
  SessionState& a = world.bind(make_chain(12), {.evict_order = EvictOrder::lru});
  for (int i = 0; i < 3; ++i) {
    const Handle run = world.run(a);
    while (!run.done()) {
      load_all(world, a);
      world.segment(run);
    }
  }
  CHECK(world.policy().counters().replaced == 0);
}

TEST_CASE("look-ahead evicts from its own session only") {
  World world({.limits = limit(Domain::prepared, 8 * kPage)});
  SessionState& a = world.bind(make_chain(12));
  SessionState& b = world.bind(make_chain(4), {.mode = Mode::on_demand});
  world.run(b);
  world.drain();
  const Handle run = world.run(a);
  load_all(world, a);
  for (ObjectId object = 0; object < 4; ++object) CHECK(world.state(b, object) == Residency::resident);
  CHECK(world.policy().counters().replaced == 0);  // nothing of its own is used later
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("on demand the window is nothing") {
  World world({.limits = limit(Domain::prepared, 8 * kPage)});
  SessionState& a = world.bind(make_chain(8), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  CHECK(count(world.take_log(), "read", "prefetch") == 0);
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
