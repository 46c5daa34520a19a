// Plans that branch and loop: what is created, read ahead and evicted when a choice is open, and after it.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using plan::SegmentId;

namespace {

// a0 | a1 a4 or a2 a4 | a3: an If behind the first segment.
PlanPointer branching() {
  auto plan =
      std::make_shared<plan::PreparedExecutionPlan>(*make_plan(std::vector<ObjectSpec>(5), {{0}, {1, 4}, {2, 4}, {3}}));
  plan->ranges = {{.name = "then", .begin = 1, .end = 2}, {.name = "else", .begin = 2, .end = 3}};
  plan->segments[0].next = {1, 2};
  plan->segments[0].either = {4};
  for (const SegmentId branch : {1, 2}) {
    plan->segments[size_t(branch)].range = branch - 1;
    plan->segments[size_t(branch)].next = {3};
  }
  for (const SegmentId segment : {0, 1, 2}) plan->segments[size_t(segment)].join = 3;
  plan->objects[1].certain = plan->objects[2].certain = false;
  return plan;
}

// a0 | again and again: a1, a2 | a3: a Loop whose body is two segments.
PlanPointer looping() {
  auto plan =
      std::make_shared<plan::PreparedExecutionPlan>(*make_plan(std::vector<ObjectSpec>(4), {{0}, {1}, {2}, {3}}));
  plan->ranges = {{.name = "body", .loop = true, .begin = 1, .end = 3}};
  plan->segments[1].range = plan->segments[2].range = 0;
  plan->segments[0].next = plan->segments[2].next = {1, 3};
  plan->segments[0].join = plan->segments[2].join = 3;
  plan->objects[1].certain = plan->objects[2].certain = false;
  return plan;
}

Log only(const Log& log, const std::string& what) {
  Log found;
  std::copy_if(log.begin(), log.end(), std::back_inserter(found),
               [&](const std::string& line) { return line.starts_with(what); });
  return found;
}

// Any nesting of branches and loops, over objects of a page.
class RandomPlan {
 public:
  explicit RandomPlan(std::mt19937_64& random) : random_(random) {
    items(3, plan::kNone);
    auto made = std::make_shared<plan::PreparedExecutionPlan>(*make_plan(std::vector<ObjectSpec>(objects_), needs_));
    made->ranges = ranges_;
    for (plan::PreparedObject& object : made->objects) object.certain = false;
    for (size_t i = 0; i < needs_.size(); ++i) {
      made->segments[i].range = range_[i];
      made->segments[i].next = next_[i];
      made->segments[i].join = join_[i];
      for (const ObjectId object : needs_[i]) {
        if (range_[i] == plan::kNone) made->objects[size_t(object)].certain = true;
      }
    }
    plan = made;
  }
  PlanPointer plan;

 private:
  size_t below(size_t end) { return random_() % end; }

  SegmentId add(plan::RangeId range) {
    std::vector<ObjectId> needs;
    for (size_t count = below(3); count > 0; --count) {
      const bool fresh = objects_ == 0 || (objects_ < 10 && below(2));
      const ObjectId object = fresh ? ObjectId(objects_++) : ObjectId(below(objects_));
      if (std::find(needs.begin(), needs.end(), object) == needs.end()) needs.push_back(object);
    }
    needs_.push_back(needs);
    range_.push_back(range);
    next_.emplace_back();
    join_.push_back(plan::kNone);
    return SegmentId(needs_.size()) - 1;
  }

  void items(int depth, plan::RangeId range) {
    for (size_t count = 1 + below(3); count > 0; --count) {
      const SegmentId head = add(range);
      const size_t what = depth > 0 ? below(3) : 0;
      if (what == 0) continue;
      const bool loop = what == 1;
      std::vector<plan::RangeId> held;
      for (int branch = 0; branch < (loop ? 1 : 2); ++branch) {
        held.push_back(plan::RangeId(ranges_.size()));
        plan::Range& made = ranges_.emplace_back();
        made.parent = range;
        made.loop = loop;
        made.begin = SegmentId(needs_.size());
        next_[size_t(head)].push_back(SegmentId(needs_.size()));
        items(depth - 1, held.back());
        add(held.back());
        ranges_[size_t(held.back())].end = SegmentId(needs_.size());
      }
      const auto behind = SegmentId(needs_.size());
      for (const plan::RangeId inner : held) {
        const plan::Range& ended = ranges_[size_t(inner)];
        if (loop) next_[size_t(ended.end) - 1].push_back(ended.begin);
        next_[size_t(ended.end) - 1].push_back(behind);
        join_[size_t(ended.end) - 1] = behind;
      }
      if (loop) next_[size_t(head)].push_back(behind);
      join_[size_t(head)] = behind;
    }
  }

  std::mt19937_64& random_;
  size_t objects_ = 0;
  std::vector<std::vector<ObjectId>> needs_;
  std::vector<plan::Range> ranges_;
  std::vector<plan::RangeId> range_;
  std::vector<std::vector<SegmentId>> next_;
  std::vector<SegmentId> join_;
};

// Runs, preparations and cancellations at any time, choices at random, in little room: every handle must end.
void random_walk(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t end) { return size_t(random() % end); };
  const RandomPlan made(random);
  WorldOptions options{.threads = int(1 + below(3)), .discards_later = below(2) == 1};
  options.choice = [&](SegmentId segment) { return int32_t(made.plan->chooses(segment) ? below(2) : 0); };
  if (below(2)) options.limits.domain_bytes[Domain::prepared] = (2 + below(4)) * kPage;
  if (below(2)) options.limits.domain_bytes[Domain::preparation] = (2 + below(3)) * kPage;
  World world(options);
  SessionState& a = world.bind(made.plan, {.mode = below(2) ? Mode::streaming : Mode::on_demand});
  std::vector<Handle> handles;
  for (int step = 0; step < 200; ++step) {
    const std::vector<Event> events = world.possible();
    const size_t what = below(16);
    if (what == 0 && handles.size() < 12) {
      std::vector<exec::MemoryWanted> grows(below(3), {-1, kPage, kPage});
      handles.push_back(world.run(a, {.grows = grows}));
    } else if (what == 1 && handles.size() < 12) {
      handles.push_back(world.prepare(a, below(2) == 1));
    } else if (what == 2 && !handles.empty()) {
      world.cancel(handles[below(handles.size())]);
    } else if (!events.empty()) {
      world.apply(events[below(events.size())], below(40) == 0 ? std::optional(io_error()) : std::nullopt);
    }
  }
  world.drain(below);
  for (const Handle& handle : handles) CHECK(handle.done());
}

}  // namespace

TEST_SUITE_BEGIN("policy_flow");

TEST_CASE("until an If has chosen, nothing of one branch alone is read; what both need is, and what follows") {
  for (const int32_t chosen : {0, 1}) {
    CAPTURE(chosen);
    World world({.choice = [&](SegmentId) { return chosen; }});
    SessionState& a = world.bind(branching());
    const Handle run = world.run(a);
    CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0", "read a4.0 prefetch", "read a3.0 prefetch"});
    world.load(a, 0);
    world.take_log();
    world.start_segment(run);
    CHECK(world.take_log().empty());
    world.finish_segment(run);
    const std::string id = chosen == 0 ? "1" : "2";
    CHECK(world.take_log() == Log{"read a" + id + ".0 critical", "promote a4.0 critical", "segment 1." + id,
                                  "promote a3.0 critical", "segment 1.3"});
    world.drain();
    CHECK(run.succeeded());
    CHECK(world.state(a, chosen == 0 ? 2 : 1) == store::Residency::absent);
  }
}

TEST_CASE("on demand nothing is read ahead of the choice") {
  World world({.choice = [](SegmentId) { return 1; }});
  SessionState& a = world.bind(branching(), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(only(world.take_log(), "read") == Log{"read a2.0 critical", "read a4.0 critical", "read a3.0 critical"});
}

TEST_CASE("a preparation leaves to each branch what it alone needs") {
  World world({.choice = [](SegmentId) { return 0; }});
  SessionState& a = world.bind(branching());
  const Handle prepared = world.prepare(a);
  world.drain();
  CHECK(prepared.succeeded());
  CHECK(only(world.take_log(), "read") == Log{"read a0.0 prefetch", "read a3.0 prefetch", "read a4.0 prefetch"});
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  CHECK(only(world.take_log(), "read") == Log{"read a1.0 critical"});
}

TEST_CASE("a Loop's segments are created pass by pass; its objects are read once") {
  int passes = 0;
  World world({.choice = [&](SegmentId segment) { return segment == 2 && ++passes == 3 ? 1 : 0; }});
  SessionState& a = world.bind(looping());
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0", "read a3.0 prefetch"});
  world.drain();
  CHECK(run.succeeded());
  const Log log = world.take_log();
  CHECK(only(log, "segment") ==
        Log{"segment 1.1", "segment 1.2", "segment 1.1", "segment 1.2", "segment 1.1", "segment 1.2", "segment 1.3"});
  CHECK(only(log, "read").size() == 2);
}

TEST_CASE("a Loop that makes no pass: its body's objects are never read") {
  World world({.choice = [](SegmentId) { return 1; }});
  SessionState& a = world.bind(looping());
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  CHECK(world.state(a, 1) == store::Residency::absent);
  CHECK(world.state(a, 2) == store::Residency::absent);
}

TEST_CASE("in a Loop what its next pass uses is nearer than what follows it") {
  int passes = 0;
  // Room for three: a0, which is past, goes for a3 at the latest; a1 and a2 stay for every pass.
  World world({.limits = limit(Domain::prepared, 3 * kPage),
               .choice = [&](SegmentId segment) { return segment == 2 && ++passes == 6 ? 1 : 0; }});
  SessionState& a = world.bind(looping());
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  const Log log = world.take_log();
  CHECK(only(log, "evict") == Log{"evict a0"});
  CHECK(only(log, "read").size() == 4);
}

TEST_CASE("a segment that fails in a pass fails its invocation; what would have run in any case is suppressed") {
  World world;
  SessionState& a = world.bind(looping());
  const Handle run = world.run(a);
  world.load(a, 0);
  world.segment(run);
  world.load(a, 1);
  world.load(a, 2);
  world.segment(run);
  world.segment(run);  // the first pass
  world.start_segment(run);
  world.finish_segment(run, io_error());
  REQUIRE(run.done());
  CHECK(run.completion->diagnostics.failed_task == "segment s1 in pass 1");
  CHECK(run.completion->diagnostics.suppressed == std::vector<std::string>{"s2", "s3"});
  world.drain();
}

TEST_CASE("cancelled while a choice is open, and between two passes") {
  for (const int segments : {0, 1, 2, 3, 4}) {
    CAPTURE(segments);
    World world;
    SessionState& a = world.bind(looping());
    const Handle run = world.run(a);
    for (int done = 0; done < segments; ++done) {
      for (std::vector<Event> events = world.possible(); events.front().kind != Event::Kind::start_segment;
           events = world.possible())
        world.apply(events.front());
      world.segment(run);
    }
    world.cancel(run);
    REQUIRE(run.done());
    CHECK(run.error().kind == ErrorKind::cancelled);
    world.drain();
  }
}

TEST_CASE("a segment that finds that it lacks memory goes on with more, and nothing is created ahead of it") {
  World world;
  SessionState& a = world.bind(make_chain(2));
  const Handle run = world.run(a, {.grows = {{-1, 2 * kPage, kPage}, {0, kPage, kPage}}});
  world.load(a, 0);
  world.take_log();
  world.segment(run);
  CHECK(world.budget().usage()[Domain::execution].live_bytes == 3 * kPage);
  world.segment(run);
  CHECK(world.budget().usage()[Domain::io].live_bytes == kPage);
  CHECK(world.take_log() == Log{"segment 1.0", "segment 1.0"});
  world.segment(run);
  CHECK(world.take_log() == Log{"promote a1.0 critical", "segment 1.1"});
  world.load(a, 1);
  world.segment(run);
  CHECK(run.succeeded());
  CHECK(world.budget().usage()[Domain::execution].live_bytes == 0);
}

TEST_CASE("memory that isn't there fails that invocation alone, with the numbers; what would do now is enough") {
  World world({.limits = limit(Domain::execution, 4 * kPage)});
  SessionState& a = world.bind(make_chain(1));
  const Handle other = world.run(a);
  const Handle run = world.run(a, {.grows = {{-1, 8 * kPage, 2 * kPage}}});
  const Handle greedy = world.run(a, {.grows = {{-1, 8 * kPage, 4 * kPage}}});
  world.drain();
  CHECK(other.succeeded());
  CHECK(run.succeeded());
  REQUIRE(greedy.done());
  REQUIRE_FALSE(greedy.succeeded());
  CHECK(greedy.error().kind == ErrorKind::cannot_fit);
  CHECK(greedy.error().reason.find("need 16384 more bytes of execution") != std::string::npos);
  CHECK(greedy.error().reason.find("the limit is 16384") != std::string::npos);
  CHECK(greedy.completion->diagnostics.failed_task == "segment s0");
}

TEST_CASE("random plans, orders, choices, failures and cancellations") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    random_walk(seed);
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
