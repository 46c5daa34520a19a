// Order, proven with gates: what a task waits for, what a promotion does, and who never computes.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "gate.h"
#include "script.h"
#include "thread_clock.h"

namespace ompipe::schedule {
namespace {

constexpr std::array kSchedulers = {"sequential", "omp-tasks"};

// Opens that many loads that nothing holds back, one after another, and waits for them: what could have run meanwhile
// has had its chance.
bool let_others_run(Script& script, LoadToken token, int loads) {
  for (int i = 0; i < loads; ++i) {
    const size_t before = script.prepacks().size();
    script.step([&](Scheduler& scheduler) {
      scheduler.create_load(token);
      scheduler.open_load(token, TaskClass::critical);
    });
    if (!script.await_prepacks(before + 1)) return false;
  }
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("order");

TEST_CASE("a prepack starts after its own gate and no other") {
  for (const char* name : kSchedulers) {
    for (int threads : {1, 2, 4, 8}) {
      CAPTURE(name);
      CAPTURE(threads);
      Script script;
      std::array<std::atomic<bool>, 4> started{};
      script.on_prepack = [&](LoadToken load) { started[size_t(load)] = true; };
      script.open(name, threads);
      script.step([](Scheduler& scheduler) {
        for (LoadToken load = 0; load < 3; ++load) scheduler.create_load(load);
      });
      CHECK(let_others_run(script, 3, 20));
      script.step([](Scheduler& scheduler) { scheduler.open_load(2, TaskClass::speculative); });
      CHECK(script.await_prepacks(21));
      CHECK(let_others_run(script, 3, 20));
      CHECK(started[2].load());
      CHECK_FALSE(started[0].load());
      CHECK_FALSE(started[1].load());
      script.step([](Scheduler& scheduler) {
        scheduler.open_load(1, TaskClass::critical);
        scheduler.open_load(0, TaskClass::critical);
      });
      CHECK(script.await_prepacks(43));
      CHECK(started[0].load());
    }
  }
}

TEST_CASE("a segment starts after all the gates it names, in every order, and after its predecessor") {
  std::vector<PublishToken> order = {0, 1, 2};
  do {
    for (const char* name : kSchedulers) {
      CAPTURE(name);
      Script script;
      std::atomic<int> started{0};
      script.on_segment = [&](SlotToken, Worker&) { ++started; };
      script.open(name, 2);
      script.step([](Scheduler& scheduler) {
        for (PublishToken token : {0, 1, 2}) scheduler.create_publish(token);
        scheduler.create_segment(0, std::array<PublishToken, 2>{0, 1});
        scheduler.create_segment(0, std::array<PublishToken, 1>{2});
      });
      std::set<PublishToken> open;
      for (PublishToken token : order) {
        script.step([&](Scheduler& scheduler) { scheduler.publish(token); });
        open.insert(token);
        const int expected = !open.contains(0) || !open.contains(1) ? 0 : open.contains(2) ? 2 : 1;
        CHECK(script.await_segments(size_t(expected)));
        CHECK(let_others_run(script, 0, 5));
        CHECK(started.load() == expected);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("segments of one slot follow each other, those of different slots need not") {
  Script script;
  Gate other_started;
  std::atomic<bool> together{false};
  script.on_segment = [&](SlotToken slot, Worker&) {
    if (slot == 0) together = other_started.wait();
    if (slot == 1) other_started.open();
  };
  script.open("omp-tasks", 2);
  script.step([](Scheduler& scheduler) {
    for (SlotToken slot : {0, 0, 1}) scheduler.create_segment(slot, {});
  });
  CHECK(script.await_segments(3));
  CHECK(together.load());
}

TEST_CASE("segments that have not started are taken back: they call nobody, and report in their turn") {
  for (const char* name : kSchedulers) {
    CAPTURE(name);
    Script script;
    std::atomic<int> ran{0};
    script.on_segment = [&](SlotToken, Worker&) { ++ran; };
    script.open(name, 2);
    int taken = 0, taken_again = 0;
    script.step([&](Scheduler& scheduler) {
      scheduler.create_publish(0);
      scheduler.create_segment(3, std::array<PublishToken, 1>{0});
      scheduler.create_segment(3, {});
      taken = scheduler.take_back(3);
      taken_again = scheduler.take_back(3);
    });
    CHECK(taken == 2);
    CHECK(taken_again == 0);
    CHECK(let_others_run(script, 0, 5));
    CHECK(script.segments().empty());  // its gate is closed
    script.step([](Scheduler& scheduler) { scheduler.publish(0); });
    CHECK(script.await_segments(2));
    CHECK(ran.load() == 0);
    script.step([](Scheduler& scheduler) { scheduler.create_segment(3, {}); });
    CHECK(script.await_segments(3));
    CHECK(ran.load() == 1);
  }
}

TEST_CASE("a segment that runs is not taken back, the one behind it is") {
  Script script;
  Gate started, held;
  std::atomic<int> ran{0};
  std::atomic<bool> waited{false};
  script.on_segment = [&](SlotToken, Worker&) {
    ++ran;
    started.open();
    waited = held.wait();
  };
  script.open("omp-tasks", 2);
  script.step([](Scheduler& scheduler) {
    scheduler.create_segment(0, {});
    scheduler.create_segment(0, {});
  });
  REQUIRE(started.wait());
  int taken = 0;
  script.step([&](Scheduler& scheduler) { taken = scheduler.take_back(0); });
  held.open();
  CHECK(taken == 1);
  CHECK(script.await_segments(2));
  CHECK(ran.load() == 1);
  CHECK(waited.load());
}

// One compute thread, held in a prepack. A speculative prepack is opened and then promoted: from there it counts as
// critical, so the next speculative gate is held back until it has started, and the message says when.
TEST_CASE("a promoted prepack goes before speculation that was held back for it") {
  Script script;
  Gate held, holds;
  std::atomic<bool> waited{false};
  script.on_prepack = [&](LoadToken load) {
    if (load == 0) holds.open(), waited = held.wait();
  };
  script.open("omp-tasks", 1);
  script.step([](Scheduler& scheduler) {
    for (LoadToken load = 0; load < 3; ++load) scheduler.create_load(load);
    scheduler.open_load(0, TaskClass::critical);
  });
  REQUIRE(holds.wait());
  bool before = true, after = false;
  script.step([&](Scheduler& scheduler) {
    scheduler.open_load(1, TaskClass::speculative);
    before = scheduler.critical_waiting();
    scheduler.promote_load(1);
    scheduler.promote_load(1);  // nothing happens to a critical one
    scheduler.promote_load(2);  // nor to a closed one
    after = scheduler.critical_waiting();
  });
  CHECK_FALSE(before);
  CHECK(after);
  CHECK(script.rooms() == 0);
  held.open();
  CHECK(script.await_room(1));
  bool room = false;
  script.step([&](Scheduler& scheduler) {
    room = !scheduler.critical_waiting();
    scheduler.open_load(2, TaskClass::speculative);
  });
  CHECK(room);
  CHECK(script.await_prepacks(3));
  CHECK(script.prepacks() == std::vector<LoadToken>{0, 1, 2});
  CHECK(waited.load());
  CHECK(script.scheduler().counters().promotions == 1);
}

TEST_CASE("whenever speculation is held back, the message follows, late promotions or not") {
  for (int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Script script;
    script.open("omp-tasks", threads);
    bool all_came = true;
    for (size_t round = 1; round <= 1000 && all_came; ++round) {
      bool held_back = false;
      const size_t rooms = script.rooms();
      script.step([&](Scheduler& scheduler) {
        scheduler.create_load(0);
        scheduler.create_load(1);
        scheduler.open_load(1, TaskClass::speculative);
        scheduler.open_load(0, TaskClass::critical);
        held_back = scheduler.critical_waiting();
        scheduler.promote_load(1);
      });
      if (held_back) all_came = script.await_room(rooms + 1);
      all_came = all_came && script.await_prepacks(2 * round);
    }
    CHECK(all_came);
  }
}

// All that the pools allow at once, while every compute thread is held: then the coordinator's deque holds it all. With
// one task more than the deque takes, the coordinator would run it.
TEST_CASE("with every token in use the coordinator still runs no body") {
  for (int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Script script;
    std::atomic<pid_t> coordinator{0};
    std::atomic<int> on_coordinator{0}, held{0};
    Gate release;
    std::atomic<bool> released{true};
    auto body = [&] { on_coordinator += pid_t(syscall(SYS_gettid)) == coordinator.load(); };
    script.on_thread = [&](ThreadRole role, int) {
      if (role == ThreadRole::coordinator) coordinator = pid_t(syscall(SYS_gettid));
    };
    script.on_prepack = [&](LoadToken load) {
      body();
      if (load < threads && held.fetch_add(1) < threads) released = release.wait() && released;
    };
    script.on_segment = [&](SlotToken, Worker&) { body(); };
    script.open("omp-tasks", threads);
    const int tasks = script.scheduler().capabilities().max_tasks;
    const int publishes = std::min(kMaxPublishTokens, tasks / 4), segments = kSegmentsAhead * kMaxSlots;
    const int loads = std::min(kMaxLoadTokens, (tasks - publishes - segments) / 2);
    std::vector<PublishToken> named(kMaxNamed);
    size_t prepacks = 0, done = 0;
    for (int round = 0; round < 20; ++round) {
      script.step([&](Scheduler& scheduler) {
        for (LoadToken load = 0; load < loads; ++load) scheduler.create_load(load);
        for (LoadToken load = 0; load < threads; ++load) scheduler.open_load(load, TaskClass::critical);
        for (PublishToken token = 0; token < publishes; ++token) scheduler.create_publish(token);
        for (int i = 0; i < segments; ++i) {
          for (int n = 0; n < kMaxNamed; ++n) named[size_t(n)] = (i + n) % publishes;
          scheduler.create_segment(i % kMaxSlots, named);
        }
        for (LoadToken load = loads; load-- > threads;) scheduler.open_load(load, TaskClass::speculative);
        for (PublishToken token = 0; token < publishes; ++token) scheduler.publish(token);
      });
      release.open();
      REQUIRE(script.await_prepacks(prepacks += size_t(loads)));
      REQUIRE(script.await_segments(done += size_t(segments)));
    }
    CHECK(released.load());
    CHECK(on_coordinator.load() == 0);
    CHECK(script.scheduler().counters().ran_on_coordinator == 0);
    CHECK(script.scheduler().counters().tasks_created == uint64_t(20 * (2 * loads + publishes + segments)));
  }
}

// Three threads are in tiles that end only after a speculative prepack. The one that its wake-up brought went to the
// tiles first and must have passed the wake-up on.
TEST_CASE("a thread that takes tiles leaves nobody asleep beside a speculative task") {
  Script script;
  Gate packed, leads;
  std::atomic<bool> waited{true};
  script.on_prepack = [&](LoadToken) { packed.open(); };
  auto tile = [&](int64_t index) {
    if (index == 0) leads.open();
    if (!packed.wait()) waited = false;
  };
  script.on_segment = [&](SlotToken, Worker& worker) {
    worker.run_tiles(3, [](void* arg, int64_t index, int) { (*static_cast<decltype(tile)*>(arg))(index); }, &tile, 0);
  };
  script.open("omp-tasks", 4);
  if (!script.scheduler().capabilities().shares_tiles) {
    MESSAGE("left out: this runtime shares no tiles (docs/decisions/0123-libgomp.md)");
    return;
  }
  script.step([](Scheduler& scheduler) {
    scheduler.create_load(0);
    scheduler.create_segment(0, {});
  });
  REQUIRE(leads.wait());
  script.step([](Scheduler& scheduler) { scheduler.open_load(0, TaskClass::speculative); });
  CHECK(script.await_segments(1));
  CHECK(script.await_prepacks(1));  // its gate opened in the body, before its report
  CHECK(waited.load());
}

TEST_CASE("a segment learns what CPU time other threads spent in its tiles") {
  constexpr uint64_t kBurntNs = 3'000'000;
  for (const char* name : kSchedulers) {
    for (int threads : {2, 4}) {
      CAPTURE(name);
      CAPTURE(threads);
      struct Kernel {
        int leader;
        bool shared;
        Gate burnt = {};
        std::atomic<bool> waited{true};
      };
      bool shared = false;
      uint64_t alone_ns = 1, helped_ns = 0;
      bool waited = false;
      Script script;
      // The leader holds its tile until another thread has used CPU time in the other one.
      script.on_segment = [&](SlotToken, Worker& worker) {
        Kernel kernel{.leader = worker.index(), .shared = shared};
        worker.run_tiles(1, [](void*, int64_t, int) {}, &kernel, 0);
        alone_ns = worker.helpers_cpu_ns();
        const auto tile = [](void* arg, int64_t, int thread) {
          auto* const k = static_cast<Kernel*>(arg);
          if (k->shared && thread == k->leader) {
            if (!k->burnt.wait()) k->waited = false;
            return;
          }
          const uint64_t until_ns = thread_cpu_ns() + kBurntNs;
          while (thread_cpu_ns() < until_ns) {
          }
          k->burnt.open();
        };
        worker.run_tiles(2, tile, &kernel, 1e6);
        worker.run_tiles(1, [](void*, int64_t, int) {}, &kernel, 0);  // a later kernel takes nothing away
        helped_ns = worker.helpers_cpu_ns();
        waited = kernel.waited;
      };
      script.open(name, threads);
      shared = script.scheduler().capabilities().shares_tiles;
      script.step([](Scheduler& scheduler) { scheduler.create_segment(0, {}); });
      REQUIRE(script.await_segments(1));
      CHECK(waited);
      CHECK(alone_ns == 0);
      if (shared) {
        CHECK(helped_ns >= kBurntNs);
      } else {
        CHECK(helped_ns == 0);
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
