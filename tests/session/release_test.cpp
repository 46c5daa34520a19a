// Evict, Trim and limits that change, on real sessions: who runs before an evicted object is back, how the hot path is
// lost and restored, what a lowered limit gives back, and that the bits stay the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "ompipe/io/gated_device.h"
#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

const Tokens kShort{5};
const char* const kSchedulers[] = {"sequential", "omp-tasks"};

const Floats& expected() {
  static Floats logits;
  if (!logits.empty()) return logits;
  Rig rig({.scheduler = "sequential"});
  return logits = decode(rig.open(), 1, kShort)->logits[0];
}

bool right(RuntimeSession& session) {
  const Result<Decoded> decoded = decode(session, 1, kShort);
  return decoded.ok() && decoded->logits[0] == expected();
}

bool runs_hot(RuntimeSession& session) {
  Decoder decoder(session);
  decoder.feed(kShort);
  const ExecutionHandle handle = session.RunAsync(decoder.context);
  CHECK(handle.Wait().ok());
  CHECK(decoder.take_logits() == expected());
  return handle.diagnostics().hot;
}

int resident(const RuntimeSession& session) {
  const std::vector<ObjectFigures> objects = session.objects();
  return int(
      std::count_if(objects.begin(), objects.end(), [](const ObjectFigures& o) { return o.state == "resident"; }));
}

int all_of(const RuntimeSession& session) { return int(session.plan().objects.size()); }

// An object that one segment in the middle uses, and no other; with no recipe but the whole.
plan::ObjectId middle_object(const RuntimeSession& session) {
  const plan::PreparedExecutionPlan& plan = session.plan();
  for (plan::ObjectId id = plan::ObjectId(plan.objects.size() / 2); id < plan::ObjectId(plan.objects.size()); ++id) {
    const plan::PreparedObject& object = plan.objects[size_t(id)];
    if (object.uses.size() == 1 && object.uses.front() + 1 < plan::SegmentId(plan.segments.size()) &&
        !object.row_addressable)
      return id;
  }
  FAIL("the plan has no such object");
  return plan::kNone;
}

uint64_t live(const RuntimeFigures& figures, const char* domain) { return figures.arenas.at(domain).live; }

}  // namespace

TEST_SUITE_BEGIN("release");

TEST_CASE("an object evicted in the middle: all earlier segments run before its reload is allowed to complete") {
  for (const char* scheduler : kSchedulers) {
    CAPTURE(scheduler);
    io::PosixDevice disk;
    io::GatedDevice device(disk);
    device.open_all();
    Watcher watcher;
    Rig rig({.scheduler = scheduler, .threads = 2, .observer = &watcher, .device = &device});
    RuntimeSession& session = rig.open();
    REQUIRE(session.Prepare().ok());
    CHECK(right(session));
    const plan::ObjectId middle = middle_object(session);
    const plan::PreparedObject& object = session.plan().objects[size_t(middle)];
    const plan::SegmentId user = object.uses.front();
    REQUIRE(user > 1);
    REQUIRE(session.Evict(object.key).ok());
    CHECK(resident(session) + 1 == all_of(session));
    const auto of_second_run = [&](const Seen& task) { return task.kind == TaskKind::segment && task.invocation > 1; };
    device.close_all();
    const size_t reads_before = device.started().size();
    Decoder decoder(session);
    decoder.feed(kShort);
    const ExecutionHandle run = session.RunAsync(decoder.context);
    watcher.wait_for([&](const Seen& task) { return of_second_run(task) && task.segment == user - 1; });
    device.wait_started(reads_before + 1);
    CHECK_FALSE(run.IsReady());
    for (const Seen& task : watcher.seen()) {
      if (of_second_run(task)) CHECK(task.segment < user);
      if (task.object == middle) CHECK(task.generation == 1);  // nothing of the reload has completed
    }
    device.open_all();
    CHECK(run.Wait().ok());
    CHECK_FALSE(run.diagnostics().hot);
    CHECK(decoder.take_logits() == expected());
    for (const Seen& task : watcher.seen()) {
      if (task.kind == TaskKind::read && task.generation == 2) CHECK(task.object == middle);
    }
    CHECK(runs_hot(session));
  }
}

TEST_CASE("by name too; refused for what does not exist; gone already is no error") {
  Rig rig({.threads = 2});
  RuntimeSession& session = rig.open();
  REQUIRE(session.Prepare().ok());
  const plan::PreparedObject& object = session.plan().objects[size_t(middle_object(session))];
  CHECK(session.Evict(object.name).ok());
  CHECK(session.Evict(object.name).ok());
  CHECK(resident(session) + 1 == all_of(session));
  const Status unknown = session.Evict("no such weight");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().kind == ErrorKind::usage);
  CHECK(unknown.error().message().find("no such weight") != std::string::npos);
  CHECK(right(session));
}

TEST_CASE("refused while a segment that needs it has been created; nothing of the session goes then") {
  io::PosixDevice disk;
  io::GatedDevice device(disk);
  device.open_all();
  Rig rig({.threads = 2, .device = &device});
  RuntimeSession& session = rig.open();
  REQUIRE(session.Prepare().ok());
  REQUIRE(session.EvictAll().ok());
  CHECK(resident(session) == 0);
  device.close_all();
  const size_t before = device.started().size();
  Decoder decoder(session);
  decoder.feed(kPrompt);
  const ExecutionHandle run = session.RunAsync(decoder.context);
  device.wait_started(before + 1);
  const plan::ObjectId first = session.plan().segments.front().requirements.front();
  const Status refused = session.Evict(session.plan().objects[size_t(first)].key);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::busy);
  CHECK(session.EvictAll().error().kind == ErrorKind::busy);
  device.open_all();
  CHECK(run.Wait().ok());
}

TEST_CASE("the hot path is lost by an eviction and restored by a preparation, run after run") {
  for (const char* scheduler : kSchedulers) {
    CAPTURE(scheduler);
    Rig rig({.scheduler = scheduler, .threads = 2});
    RuntimeSession& session = rig.open();
    REQUIRE(session.Prepare().ok());
    for (int round = 0; round < 3; ++round) {
      CHECK(runs_hot(session));
      if (round % 2) {
        CHECK(session.EvictAll().ok());
      } else {
        CHECK(session.Evict(session.plan().objects.back().key).ok());
      }
      CHECK_FALSE(runs_hot(session));
      REQUIRE(session.Prepare().ok());
    }
    CHECK(runs_hot(session));
  }
}

TEST_CASE("evictions beside hot runs of many callers: granted or refused, and every result is right") {
  Rig rig({.threads = 2});
  RuntimeSession& session = rig.open();
  REQUIRE(session.Prepare().ok());
  const std::string key = session.plan().objects[size_t(middle_object(session))].key;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 8; ++round) wrong += !right(session);
    });
  }
  int refused = 0, granted = 0;
  for (int round = 0; round < 16; ++round) {
    const Status status = round % 4 ? session.Evict(key) : session.EvictAll();
    if (!status.ok()) CHECK(status.error().kind == ErrorKind::busy);
    (status.ok() ? granted : refused) += 1;
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
  CHECK(granted + refused == 16);
  CHECK(session.Evict(key).ok());
}

TEST_CASE("trim: down to the number that was asked for, and no further; what is held stays") {
  for (const char* scheduler : kSchedulers) {
    CAPTURE(scheduler);
    Rig rig({.scheduler = scheduler, .threads = 2});
    RuntimeSession& session = rig.open();
    REQUIRE(session.Prepare().ok());
    CHECK(runs_hot(session));
    const RuntimeFigures before = rig.runtime().figures();
    const uint64_t prepared = live(before, "prepared");
    const Result<uint64_t> objects_only = rig.runtime().Trim(prepared);
    REQUIRE(objects_only.ok());
    CHECK(*objects_only == prepared);  // staging, the kept frame and what huge pages add have gone
    CHECK(resident(session) == all_of(session));
    CHECK(live(rig.runtime().figures(), "execution") == 0);
    CHECK(runs_hot(session));
    const Result<uint64_t> half = rig.runtime().Trim(prepared / 2);
    REQUIRE(half.ok());
    CHECK(*half <= prepared / 2);
    uint64_t largest = 0;
    for (const plan::PreparedObject& object : session.plan().objects) largest = std::max(largest, object.bytes + 4096);
    CHECK(*half + largest > prepared / 2);
    CHECK_FALSE(runs_hot(session));
    Decoder decoder(session);
    decoder.feed(kShort);
    REQUIRE(session.Run(decoder.context).ok());
    const Result<uint64_t> nothing_more = rig.runtime().Trim(0);
    REQUIRE(nothing_more.ok());
    CHECK(*nothing_more == live(rig.runtime().figures(), "io"));  // the result, held in the context
    CHECK(*nothing_more > 0);
    CHECK(resident(session) == 0);
    CHECK(decoder.take_logits() == expected());
    CHECK(*rig.runtime().Trim(0) == 0);
    CHECK(right(session));
  }
}

TEST_CASE("a limit is lowered and raised while the runtime is open; what it needs is refused with the numbers") {
  for (const char* scheduler : kSchedulers) {
    CAPTURE(scheduler);
    Rig rig({.scheduler = scheduler, .threads = 2});
    RuntimeSession& session = rig.open();
    REQUIRE(session.Prepare().ok());
    CHECK(runs_hot(session));
    const uint64_t prepared = live(rig.runtime().figures(), "prepared");
    MemoryLimits limits = rig.runtime().limits();
    CHECK(limits.prepared_bytes == kUnlimited);
    limits.prepared_bytes = 1;
    const Status refused = rig.runtime().set_limits(limits);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::cannot_fit);
    CHECK(refused.error().phase == "set limits");
    unsigned long long least = 0;
    REQUIRE(std::sscanf(refused.error().reason.c_str(), "%llu bytes of prepared", &least) == 1);
    CHECK(least < prepared);
    CHECK(rig.runtime().limits().prepared_bytes == kUnlimited);
    CHECK(resident(session) == all_of(session));
    limits.prepared_bytes = least - 1;
    CHECK(rig.runtime().set_limits(limits).error().kind == ErrorKind::cannot_fit);
    limits.prepared_bytes = least;
    limits.retained_bytes = 0;
    REQUIRE(rig.runtime().set_limits(limits).ok());
    CHECK(rig.runtime().limits().prepared_bytes == least);
    CHECK(rig.runtime().limits().retained_bytes == 0);
    CHECK(live(rig.runtime().figures(), "prepared") <= least);
    CHECK_FALSE(runs_hot(session));
    CHECK(live(rig.runtime().figures(), "prepared") <= least);
    CHECK(rig.runtime().figures().arenas.at("preparation").retained == 0);
    CHECK(session.Prepare().error().kind == ErrorKind::cannot_fit);
    REQUIRE(rig.runtime().set_limits({}).ok());
    REQUIRE(session.Prepare().ok());
    CHECK(runs_hot(session));
    limits = {};
    limits.io_inflight_bytes -= 1;
    CHECK(rig.runtime().set_limits(limits).error().kind == ErrorKind::usage);
  }
}

TEST_CASE("a lowered limit is kept to once what runs has given its pins back") {
  io::PosixDevice disk;
  io::GatedDevice device(disk);
  Rig rig({.threads = 2, .device = &device});
  RuntimeSession& session = rig.open({.mode = Mode::on_demand});
  Decoder decoder(session);
  decoder.feed(kShort);
  const ExecutionHandle run = session.RunAsync(decoder.context);
  device.wait_started(1);
  MemoryLimits limits;
  limits.prepared_bytes = 1;
  unsigned long long least = 0;
  REQUIRE(std::sscanf(rig.runtime().set_limits(limits).error().reason.c_str(), "%llu bytes of prepared", &least) == 1);
  limits.prepared_bytes = least;
  Status lowered = ok_status();
  uint64_t live_bytes = 0;
  std::thread caller([&] {
    lowered = rig.runtime().set_limits(limits);
    live_bytes = live(rig.runtime().figures(), "prepared");
  });
  device.open_all();
  caller.join();
  CHECK(lowered.ok());
  CHECK(live_bytes <= least);
  CHECK(run.Wait().ok());
  CHECK(decoder.take_logits() == expected());
  CHECK(rig.runtime().set_limits({}).ok());
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
