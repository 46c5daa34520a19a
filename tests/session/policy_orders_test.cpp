// Every order of a small set of events, and random walks over larger ones: whatever comes first, everything ends well.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "ompipe/io/limits.h"
#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using Choose = std::function<size_t(size_t)>;

namespace {

// Drains the world; each read and prepack fails if the chooser takes the second of two.
void drain_with_failures(World& world, const Choose& choose, int failures) {
  for (std::vector<Event> events = world.possible(); !events.empty(); events = world.possible()) {
    const Event event = events[choose(events.size())];
    const bool can_fail = event.kind == Event::Kind::read || event.kind == Event::Kind::finish_pack;
    const bool fails = can_fail && failures > 0 && choose(2) == 1;
    failures -= fails;
    world.apply(event, fails ? std::optional(io_error()) : std::nullopt);
  }
}

// A world that does anything at any time; every handle must end, and nothing may leak.
void random_walk(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t end) { return random() % end; };
  const Choose choose = [&](size_t count) { return size_t(below(count)); };
  std::vector<PlanPointer> plans;
  uint64_t prepared_pages = 0, staging_pages = 0;
  for (int p = 0; p < 2; ++p) {
    std::vector<ObjectSpec> objects;
    std::vector<std::vector<ObjectId>> segments;
    const int count = int(3 + below(8));
    for (int i = 0; i < count; ++i) {
      const int chunks = int(1 + below(3));
      ObjectSpec spec{.bytes = uint64_t(chunks) * kPage, .chunks = chunks, .staging_bytes = below(4) ? kPage : 0};
      spec.aux_reads = int(below(3));
      // Some tables are packed weights, too.
      if (below(6) == 0) {
        spec = {.bytes = kTableSlices * io::kSliceBytes, .chunks = 4, .staging_bytes = 0, .table = true};
        if (below(2)) spec.staging_bytes = kPage, spec.aux_reads = int(below(3));
      }
      objects.push_back(spec);
    }
    for (ObjectId next = 0; next < count;) {
      std::vector<ObjectId> needs;
      if (next > 0 && below(3) == 0) needs.push_back(ObjectId(below(uint64_t(next))));
      for (uint64_t taken = 1 + below(3); taken > 0 && next < count; --taken) needs.push_back(next++);
      segments.push_back(needs);
    }
    plans.push_back(make_plan(objects, segments));
    for (const plan::Gang& gang : plans.back()->gangs) {
      prepared_pages = std::max(prepared_pages, gang.prepared_bytes / kPage);
      staging_pages = std::max(staging_pages, gang.staging_bytes / kPage);
    }
  }
  // At the smallest budget, or somewhat above it, in one domain or another.
  WorldOptions options{.threads = int(1 + below(4)), .discards_later = below(2) == 1};
  options.reads_begin_early = [&] { return below(2) == 1; };
  options.load_tokens = options.publish_tokens = int(4 + below(12));
  const auto room = [&] { return below(2) ? 0 : below(6); };
  if (below(2)) options.limits.domain_bytes[Domain::prepared] = (prepared_pages + room()) * kPage;
  if (below(2)) options.limits.domain_bytes[Domain::preparation] = (staging_pages + room()) * kPage;
  if (below(2)) options.limits.domain_bytes[Domain::execution] = (1 + room()) * kPage;
  if (below(2)) options.limits.global_bytes = (prepared_pages + staging_pages + 2 + room()) * kPage;
  if (below(3) == 0) options.limits.critical_reserve_bytes = below(4) * kPage;
  World world(options);
  SessionOptions mode{.mode = below(2) ? Mode::streaming : Mode::on_demand, .inheritance = below(4) != 0};
  mode.evict_order = below(4) ? EvictOrder::next_use : EvictOrder::lru;
  SessionState* const sessions[] = {&world.bind(plans[0], mode), &world.bind(plans[1], mode)};
  std::vector<Handle> handles;
  const bool failures = below(2) == 1;
  for (int step = 0; step < 120; ++step) {
    SessionState& session = *sessions[below(2)];
    const std::vector<Event> events = world.possible();
    const uint64_t what = below(20);
    if (what == 0) {
      const std::vector<uint64_t> slices{0, 1 + below(3), 5};
      handles.push_back(world.run(
          session, {.output_bytes = {below(2) * kPage}, .slices = below(2) ? slices : std::vector<uint64_t>()}));
    } else if (what == 1) {
      handles.push_back(world.prepare(session, below(2) == 1));
    } else if (what == 2 && !handles.empty()) {
      world.cancel(handles[below(handles.size())]);
    } else if (what == 3) {
      world.outputs.clear();
    } else if (!events.empty()) {
      const Event event = events[below(events.size())];
      const bool can_fail = event.kind == Event::Kind::read || event.kind == Event::Kind::finish_pack ||
                            event.kind == Event::Kind::finish_segment;
      world.apply(event, can_fail && failures && below(12) == 0 ? std::optional(io_error()) : std::nullopt);
    }
  }
  world.drain(choose);
  for (const Handle& handle : handles) {
    CHECK(handle.done());
    if (handle.done() && !handle.succeeded() && !failures) {
      const ErrorKind kind = handle.error().kind;
      CHECK((kind == ErrorKind::cancelled || kind == ErrorKind::cannot_fit));
    }
  }
  world.outputs.clear();
  const Handle last = world.run(*sessions[0], {.output_bytes = {kPage}});
  world.drain(choose);
  CHECK(last.succeeded());
}

}  // namespace

TEST_SUITE_BEGIN("policy_orders");

TEST_CASE("two objects in two segments: every order") {
  const PlanPointer plan = make_chain(2);
  const size_t orders = every_order(
      [&](const Choose& choose) {
        World world;
        const Handle run = world.run(world.bind(plan));
        world.drain(choose);
        CHECK(run.succeeded());
      },
      100'000);
  CHECK(orders > 30);
  CHECK(orders < 100'000);
}

TEST_CASE("an object of two chunks with aux bytes, and one failure anywhere: every order, then once more") {
  const PlanPointer plan = make_plan({{.bytes = 2 * kPage, .chunks = 2, .aux_reads = 1}}, {{0}});
  const size_t orders = every_order(
      [&](const Choose& choose) {
        World world;
        SessionState& a = world.bind(plan);
        const Handle run = world.run(a);
        drain_with_failures(world, choose, 1);
        CHECK(run.done());
        const bool failed = !run.succeeded();
        const Handle again = world.run(a);
        world.drain();
        CHECK(again.succeeded());
        CHECK(a.store->generation(0) == (failed ? 2 : 1));
      },
      100'000);
  CHECK(orders > 100);
  CHECK(orders < 100'000);
}

TEST_CASE("two runs of two sessions in the room of one object, pages going back later: every order") {
  const PlanPointer plan = make_chain(2);
  const size_t orders = every_order(
      [&](const Choose& choose) {
        World world({.limits = limit(Domain::prepared, kPage), .discards_later = true});
        const Handle first = world.run(world.bind(plan)), second = world.run(world.bind(plan));
        world.drain(choose);
        CHECK(first.succeeded());
        CHECK(second.succeeded());
      },
      100'000);
  CHECK(orders > 0);
  CHECK(orders < 100'000);
}

TEST_CASE("a cancel at every moment of a run that shares its objects with another") {
  const PlanPointer plan = make_chain(2);
  for (int moment = 0; moment < 12; ++moment) {
    CAPTURE(moment);
    World world;
    SessionState& a = world.bind(plan);
    const Handle run = world.run(a), other = world.run(a);
    for (int i = 0; i < moment && !world.possible().empty(); ++i) world.apply(world.possible().front());
    world.cancel(run);
    world.drain();
    CHECK(run.done());
    CHECK(other.succeeded());
  }
}

TEST_CASE("random walks: runs, preparations, cancels, failures, at budgets down to the smallest") {
  const uint64_t seeds = std::getenv("OMPIPE_LONG") ? 50'000 : 400;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    random_walk(seed);
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
