#include "ompipe/trace/recorder.h"

#include <doctest/doctest.h>

#include <set>
#include <thread>
#include <vector>

namespace {

using namespace ompipe;
using session::Milestone;
using session::TaskEvent;
using session::TaskKind;

}  // namespace

TEST_SUITE("recorder") {
  TEST_CASE("a full buffer counts what it drops, and the sums keep all") {
    trace::Recorder recorder(3);
    for (uint64_t i = 0; i < 5; ++i) {
      TaskEvent event;
      event.task = i;
      event.kind = TaskKind::prepack;
      event.start_ns = 10;
      event.end_ns = 30;
      event.cpu_ns = 7;
      recorder.on_task(event);
    }
    CHECK(recorder.events().size() == 3);
    CHECK(recorder.dropped() == 2);
    CHECK(recorder.sum(TaskKind::prepack).tasks == 5);
    CHECK(recorder.sum(TaskKind::prepack).wall_ns == 100);
    CHECK(recorder.sum(TaskKind::prepack).cpu_ns == 35);
    CHECK(recorder.sum(TaskKind::read).tasks == 0);
  }

  TEST_CASE("a milestone is the first time that it happened") {
    trace::Recorder recorder(1);
    CHECK(!recorder.milestone_ns(Milestone::first_read));
    recorder.on_milestone(Milestone::first_read, 5);
    recorder.on_milestone(Milestone::first_read, 3);
    CHECK(recorder.milestone_ns(Milestone::first_read) == 5);
  }

  TEST_CASE("threads write at once, a reader meanwhile sees whole events only") {
    constexpr uint64_t kThreads = 4, kEach = 2000;
    trace::Recorder recorder(kThreads * kEach);
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&recorder, t] {
        for (uint64_t i = 0; i < kEach; ++i) {
          TaskEvent event;
          event.task = t * kEach + i;
          event.bytes = ~event.task;
          recorder.on_task(event);
        }
      });
    }
    for (int look = 0; look < 20; ++look) {
      for (const TaskEvent& event : recorder.events()) REQUIRE(event.bytes == ~event.task);
    }
    for (std::thread& thread : threads) thread.join();
    std::set<uint64_t> seen;
    for (const TaskEvent& event : recorder.events()) seen.insert(event.task);
    CHECK(seen.size() == kThreads * kEach);
    CHECK(recorder.dropped() == 0);
  }
}
