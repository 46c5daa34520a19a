// The stress test's observer is itself tested: of each thing that it checks, a sequence of events in which just that is
// broken, and the same without.
#include "invariants.h"

#include <doctest/doctest.h>

#include <functional>

namespace ompipe::session::testing {

namespace {

constexpr int32_t kWeight = 0, kTable = 1, kSegment = 0;

// One segment that needs a weight, and a table of which it may read only rows.
plan::PreparedExecutionPlan small_plan() {
  plan::PreparedExecutionPlan plan;
  plan.objects.resize(2);
  plan.objects[kWeight].name = "the weight of the only product";
  plan.objects[kTable].name = "the table that is read by rows";
  plan.objects[kTable].row_addressable = true;
  plan::Segment& segment = plan.segments.emplace_back();
  segment.name = "the segment that needs both of them";
  segment.requirements = {kWeight, kTable};
  return plan;
}

// Tells an observer of a plan's events, in the order of the calls; times are as given.
class Teller {
 public:
  Teller() { invariants_.watch(plan_); }

  void object(TaskKind kind, uint32_t generation, uint64_t start_ns, int32_t id = kWeight) {
    tell({.kind = kind,
          .object = id,
          .generation = generation,
          .start_ns = start_ns,
          .end_ns = start_ns + 1,
          .name = plan_.objects[size_t(id)].name});
  }
  void load(uint32_t generation, uint64_t start_ns) {
    object(TaskKind::read, generation, start_ns);
    object(TaskKind::prepack, generation, start_ns + 2);
    object(TaskKind::publish, generation, start_ns + 4);
  }
  void segment(uint64_t start_ns, uint64_t end_ns) {
    tell({.kind = TaskKind::segment,
          .segment = kSegment,
          .start_ns = start_ns,
          .end_ns = end_ns,
          .name = plan_.segments[kSegment].name});
  }
  void tell(const TaskEvent& event) { invariants_.on_task(event); }

  // What was broken by the call, and nothing before or besides.
  std::string broken_by(const std::function<void()>& call) {
    CHECK(invariants_.broken().size() == 0);
    call();
    const std::vector<std::string> broken = invariants_.broken();
    CAPTURE(broken);
    CHECK(broken.size() == 1);
    return broken.empty() ? "" : broken.front().substr(broken.front().rfind(": ") + 2);
  }
  Invariants& invariants() { return invariants_; }
  const plan::PreparedExecutionPlan& plan() const { return plan_; }

 private:
  const plan::PreparedExecutionPlan plan_ = small_plan();
  Invariants invariants_;
};

}  // namespace

TEST_SUITE_BEGIN("invariants");

TEST_CASE("what may happen breaks nothing") {
  Teller teller;
  teller.object(TaskKind::read, 0, 5, kTable);  // rows of a table that was never loaded
  teller.load(1, 10);
  teller.segment(20, 30);
  teller.segment(30, 40);
  teller.object(TaskKind::evict, 1, 40);
  teller.load(2, 50);
  teller.segment(60, 70);
  teller.object(TaskKind::evict, 2, 70);
  teller.object(TaskKind::read, 3, 80);  // fails
  teller.load(4, 90);
  CHECK(teller.invariants().broken().empty());
  CHECK(teller.invariants().seen(TaskKind::segment) == 3);
  CHECK(teller.invariants().seen(TaskKind::evict) == 2);
  // Another plan at the same place begins anew.
  teller.invariants().watch(teller.plan());
  teller.load(1, 100);
  CHECK(teller.invariants().broken().empty());
}

TEST_CASE("one generation of a key at a time") {
  Teller teller;
  SUBCASE("a chunk of the last generation is packed when the next one has begun") {
    teller.object(TaskKind::read, 1, 10);
    teller.object(TaskKind::read, 2, 20);
    CHECK(teller.broken_by([&] { teller.object(TaskKind::prepack, 1, 30); }) ==
          "comes after the next generation has begun");
  }
  SUBCASE("a generation begins beside the resident one") {
    teller.load(1, 10);
    CHECK(teller.broken_by([&] { teller.object(TaskKind::read, 2, 20); }) ==
          "begins a generation while the last one is resident");
  }
  SUBCASE("a generation is published twice") {
    teller.load(1, 10);
    CHECK(teller.broken_by([&] { teller.object(TaskKind::publish, 1, 20); }) == "is published twice");
  }
}

TEST_CASE("nothing is evicted under a consumer") {
  Teller teller;
  SUBCASE("chosen while a segment that was told of ran") {
    teller.load(1, 10);
    teller.segment(20, 30);
    CHECK(teller.broken_by([&] { teller.object(TaskKind::evict, 1, 29); }) == "was evicted under a consumer");
  }
  SUBCASE("chosen while a segment ran that is told of when the object is back") {
    teller.load(1, 10);
    teller.object(TaskKind::evict, 1, 25);
    teller.load(2, 26);
    CHECK(teller.broken_by([&] { teller.segment(20, 40); }) == "lost an object that it needs while it ran");
  }
  SUBCASE("a segment runs before what it needs is there") {
    teller.object(TaskKind::read, 1, 10);
    CHECK(teller.broken_by([&] { teller.segment(20, 30); }) == "ran while an object that it needs was not resident");
  }
  SUBCASE("a segment runs when what it needs has gone") {
    teller.load(1, 10);
    teller.object(TaskKind::evict, 1, 15);
    CHECK(teller.broken_by([&] { teller.segment(20, 30); }) == "ran while an object that it needs was not resident");
  }
  SUBCASE("evicted twice") {
    teller.load(1, 10);
    teller.object(TaskKind::evict, 1, 20);
    CHECK(teller.broken_by([&] { teller.object(TaskKind::evict, 1, 30); }) == "is evicted and was not resident");
  }
}

TEST_CASE("an event of nobody's is noticed") {
  Teller teller;
  CHECK(teller.broken_by([&] {
    teller.tell({.kind = TaskKind::read, .object = kWeight, .generation = 1, .name = "of no plan"});
  }) == "is of no session");
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
