// Hot invocations: places, claims, callers that run as compute threads, and the helpers that spin for them.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gate.h"
#include "ompipe/schedule/hot_ledger.h"
#include "ompipe/schedule/ledger.h"
#include "ompipe/schedule/scheduler.h"
#include "ompipe/schedule/tiles.h"

namespace ompipe::schedule {
namespace {

using Body = std::function<void(Worker&)>;

// Publishes bodies that are claimed once each, by whoever asks first.
class Claims : public Director {
 public:
  Claims(const std::string& name, int threads) {
    auto opened = open_scheduler(name, {.threads = threads}, *this);
    REQUIRE(opened.ok());
    scheduler = std::move(*opened);
  }

  void publish(Body body) {
    {
      std::lock_guard lock(mutex_);
      bodies_.push_back(std::move(body));
    }
    scheduler->publish_hot();
  }
  void wait_ended(int count) {
    for (int seen = ended.load(); seen < count; seen = ended.load()) ended.wait(seen);
  }

  int run_claimable(Worker& worker) noexcept override {
    Body body;
    {
      std::lock_guard lock(mutex_);
      if (bodies_.empty()) return -1;
      body = std::move(bodies_.front());
      bodies_.erase(bodies_.begin());
    }
    scheduler->taken_hot();
    const int now = ++running;
    int most = most_running.load();
    while (now > most && !most_running.compare_exchange_weak(most, now)) {
    }
    body(worker);
    --running;
    return 7;
  }
  void ran_claimable(int ticket) noexcept override {
    wrong_tickets += ticket != 7;
    ++ended;
    ended.notify_all();
  }
  // Runs `step` in the serial context and returns when it has run.
  void serially(std::function<void(Scheduler&)> step) {
    Step posted{std::move(step), {}};
    scheduler->post(Message{.kind = Message::first_free, .payload = &posted});
    CHECK(posted.done.wait());
  }
  std::function<void(SlotToken)> on_segment = [](SlotToken) {};
  std::function<void(LoadToken)> on_prepack = [](LoadToken) {};

  void prepack(LoadToken load, Worker&) noexcept override { on_prepack(load); }
  void segment(SlotToken slot, Worker&) noexcept override { on_segment(slot); }
  void on_message(const Message& message) override {
    if (message.kind != Message::first_free) return;
    auto* const step = static_cast<Step*>(message.payload);
    step->work(*scheduler);
    step->done.open();
  }
  void pump() override {}
  bool read_one() override { return false; }
  void thread_started(ThreadRole, int) override {}

  std::atomic<int> running{0}, most_running{0}, ended{0}, wrong_tickets{0};

 private:
  struct Step {
    std::function<void(Scheduler&)> work;
    Gate done;
  };
  std::mutex mutex_;
  std::vector<Body> bodies_;

 public:
  std::unique_ptr<Scheduler> scheduler;  // last: its threads use everything above
};

const char* const kSchedulers[] = {"sequential", "omp-tasks"};

int threads_of(const char* scheduler, int threads) { return scheduler == kSchedulers[0] ? 1 : threads; }

bool on_caller(Scheduler& scheduler, Body body) {
  return scheduler.run_on_caller([](void* arg, Worker& worker) { (*static_cast<Body*>(arg))(worker); }, &body);
}

}  // namespace

TEST_SUITE_BEGIN("hot");

TEST_CASE("as many places as threads, one fewer for the team while something cold is live") {
  HotLedger hot(3);
  const int a = hot.take_place(), b = hot.take_team_place(), c = hot.take_place();
  CHECK(std::vector<int>{a, b, c} == std::vector<int>{0, 1, 2});
  CHECK(hot.take_place() == -1);
  CHECK(hot.take_team_place() == -1);
  hot.published();
  CHECK_FALSE(hot.may_claim());
  hot.free_place(a);
  CHECK(hot.may_claim());
  CHECK(hot.take_team_place() == a);
  hot.free_place(c);
  hot.limit_team(true);
  CHECK_FALSE(hot.may_claim());
  CHECK(hot.take_team_place() == -1);
  CHECK(hot.take_place() == c);
  hot.free_team_place(b);
  CHECK(hot.take_team_place() == b);
  hot.taken();
  hot.free_team_place(a);
  CHECK_FALSE(hot.may_claim());
  HotLedger one(1);
  one.limit_team(true);
  CHECK(one.take_team_place() == 0);
}

TEST_CASE("helpers: no more than are wanted, none beside a caller, and only those that are missing are woken") {
  HotLedger hot(4);
  hot.set_helpers(0b0111);
  CHECK_FALSE(hot.begin_help(0));
  CHECK(hot.want(2, 0b0001) == 2);
  CHECK_FALSE(hot.begin_help(0));  // beside the caller
  CHECK_FALSE(hot.begin_help(3));  // shares its core with another
  CHECK(hot.begin_help(1));
  CHECK(hot.begin_help(2));
  CHECK_FALSE(hot.wants(1));
  hot.end_want(2, 0b0001);
  CHECK_FALSE(hot.wanted());
  CHECK(hot.want(2, 0b0001) == 0);  // both still spin
  hot.end_want(2, 0b0001);
  CHECK(hot.want(2, 0b0010) == 1);  // one of them is beside this caller
  CHECK(hot.beside_caller(1));
  hot.end_help(1);
  CHECK(hot.begin_help(0));
  hot.end_want(2, 0b0010);
  CHECK_FALSE(hot.beside_caller(1));
}

// A caller leads from a place of its own with the scratch of thread 1, so thread 1 may not help; thread 0 may.
TEST_CASE("a caller's kernel is helped by all but the thread whose scratch it uses") {
  Ledger ledger(2);
  TileSharing tiles(ledger, 2);
  struct Kernel {
    Gate joined, finish;
    std::atomic<int> wrong{0};
    bool waited = true;
  } kernel;
  std::atomic<bool> stopped{false}, refused{true};
  std::thread excluded([&] {
    while (!stopped.load()) refused = !tiles.help(1) && refused;
  });
  std::thread helper([&] {
    while (!tiles.help(0)) std::this_thread::yield();
  });
  tiles.lead_hot(
      3, 1, 2,
      [](void* arg, int64_t, int worker) {
        auto* const k = static_cast<Kernel*>(arg);
        if (worker == 0) {
          k->joined.open();
          k->waited = k->finish.wait() && k->waited;
        } else {
          k->wrong += worker != 1;
          k->waited = k->joined.wait() && k->waited;
          k->finish.open();
        }
      },
      &kernel);
  helper.join();
  stopped = true;
  excluded.join();
  CHECK(refused.load());
  CHECK(kernel.wrong.load() == 0);
  CHECK(kernel.waited);
  CHECK(tiles.helped() == 1);
  CHECK_FALSE(ledger.has_tiles());
}

TEST_CASE("what is published is claimed once, by the team, never more at once than there are threads") {
  for (const char* name : kSchedulers) {
    for (const int threads : {1, 2, 4}) {
      CAPTURE(name);
      CAPTURE(threads);
      Claims claims(name, threads);
      constexpr int kCount = 300;
      std::atomic<int> runs{0};
      for (int i = 0; i < kCount; ++i) {
        claims.publish([&](Worker&) { ++runs; });
        if (i % 3 == 0) claims.wait_ended(i + 1);  // the team has gone to sleep, or is about to
      }
      claims.wait_ended(kCount);
      CHECK(runs == kCount);
      CHECK(claims.wrong_tickets == 0);
      CHECK(claims.most_running <= threads_of(name, threads));
    }
  }
}

// Hot runs that publish the next one, so that there is always one to claim.
TEST_CASE("one thread for all: while something cold is live, a step of it follows each hot run") {
  for (const bool cold_lives : {true, false}) {
    CAPTURE(cold_lives);
    Claims claims("sequential", 1);
    std::vector<std::string> order;  // by the scheduler's thread
    std::array<Gate, 2> cold_ran;
    claims.on_segment = [&](SlotToken slot) {
      order.emplace_back("cold");
      cold_ran[size_t(slot)].open();
    };
    int left = 4;
    Body body = [&](Worker&) {
      order.emplace_back("hot");
      if (--left > 0) claims.publish(body);
    };
    claims.serially([&](Scheduler& scheduler) {
      scheduler.limit_hot(cold_lives);
      for (const SlotToken slot : {0, 1}) scheduler.create_segment(slot, {});
      claims.publish(body);
    });
    claims.wait_ended(4);
    for (Gate& gate : cold_ran) REQUIRE(gate.wait());
    const std::vector<std::string> in_turn{"hot", "cold", "hot", "cold", "hot", "hot"};
    CHECK(order == (cold_lives ? in_turn : std::vector<std::string>{"hot", "hot", "hot", "hot", "cold", "cold"}));
  }
}

// One run holds a thread. The other is published before a cold step, speculative as reads ahead are: whoever is free
// looks for runs first.
TEST_CASE("while something cold is live, a published run doesn't take the thread that is left; then it does") {
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    Claims claims("omp-tasks", 2);
    if (!claims.scheduler->capabilities().shares_tiles) return;
    Gate holds, second_ran, leave;
    std::array<Gate, 2> cold_ran;
    std::atomic<int> waited{0};
    claims.on_prepack = [&](LoadToken load) { cold_ran[size_t(load)].open(); };
    claims.publish([&](Worker&) {
      holds.open();
      waited += leave.wait();
    });
    REQUIRE(holds.wait());
    // The other thread may have taken a place for the first run too, and would keep it under the limit until it has
    // looked. When it has run something cold, it has given it back.
    claims.serially([&](Scheduler& scheduler) {
      scheduler.create_load(0);
      scheduler.open_load(0, TaskClass::speculative);
    });
    REQUIRE(cold_ran[0].wait());
    claims.serially([&](Scheduler& scheduler) {
      scheduler.limit_hot(true);
      claims.publish([&](Worker&) {
        second_ran.open();
        waited += leave.wait();
      });
      scheduler.create_load(1);
      scheduler.open_load(1, TaskClass::speculative);
    });
    CHECK(cold_ran[1].wait());
    CHECK(claims.running == 1);
    claims.serially([](Scheduler& scheduler) { scheduler.limit_hot(false); });
    CHECK(second_ran.wait());
    leave.open();
    claims.wait_ended(2);
    CHECK(waited == 2);
  }
}

TEST_CASE("callers take places; without one they are refused; a place that is given back goes to what is published") {
  for (const char* name : kSchedulers) {
    CAPTURE(name);
    Claims claims(name, 2);
    const int places = threads_of(name, 2);
    std::vector<std::thread> callers;
    std::vector<Gate> entered(static_cast<size_t>(places));
    Gate leave;
    std::atomic<int> right{0};
    for (int i = 0; i < places; ++i) {
      callers.emplace_back([&, i] {
        right += on_caller(*claims.scheduler, [&](Worker&) {
          entered[size_t(i)].open();
          right += leave.wait();
        });
      });
    }
    for (Gate& gate : entered) REQUIRE(gate.wait());
    CHECK_FALSE(on_caller(*claims.scheduler, [&](Worker&) { right = -100; }));
    std::atomic<bool> ran{false};
    claims.publish([&](Worker&) { ran = true; });
    CHECK(claims.ended == 0);
    CHECK_FALSE(ran);
    leave.open();
    claims.wait_ended(1);
    for (std::thread& caller : callers) caller.join();
    CHECK(ran);
    CHECK(right == 2 * places);
  }
}

TEST_CASE("a caller's own floating-point mode is put aside while it runs") {
  for (const char* name : kSchedulers) {
    CAPTURE(name);
    Claims claims(name, 1);
    constexpr unsigned kFlushToZero = 0x8000, kDefault = 0x1f80;
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | kFlushToZero);
    unsigned inside = 0;
    CHECK(on_caller(*claims.scheduler, [&](Worker&) { inside = __builtin_ia32_stmxcsr(); }));
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    CHECK(inside == kDefault);
    CHECK(after == (before | kFlushToZero));
  }
}

// Both tiles wait for one another, so the run ends only if a helper comes, and comes again for the next kernel. The
// kernels are counted by who ran them: no two threads use one scratch.
TEST_CASE("a caller that expects much work is helped, kernel after kernel; one that expects little is not") {
  for (const int threads : {2, 4}) {
    CAPTURE(threads);
    Claims claims("omp-tasks", threads);
    if (!claims.scheduler->capabilities().shares_tiles) return;
    struct Kernel {
      Gate others;
      std::atomic<int> arrived{0}, caller{-1}, wrong{0};
    };
    const auto meet = [](void* arg, int64_t, int worker) {
      auto* const kernel = static_cast<Kernel*>(arg);
      kernel->wrong += worker < 0;
      if (++kernel->arrived == 2) kernel->others.open();
      kernel->wrong += !kernel->others.wait();
    };
    int wrong = 0;
    CHECK(on_caller(*claims.scheduler, [&](Worker& worker) {
      worker.expect(1e9);
      for (int k = 0; k < 50; ++k) {
        Kernel kernel;
        worker.run_tiles(2, meet, &kernel, 0);
        wrong += kernel.wrong.load();
      }
    }));
    CHECK(wrong == 0);
    std::atomic<int> others{0};
    CHECK(on_caller(*claims.scheduler, [&](Worker& worker) {
      worker.expect(1000);
      struct Own {
        std::atomic<int>& others;
        int worker;
      } own{others, worker.index()};
      worker.run_tiles(
          100,
          [](void* arg, int64_t, int by) {
            const Own& caller = *static_cast<Own*>(arg);
            caller.others += by != caller.worker;
          },
          &own, 0);
    }));
    CHECK(others == 0);
  }
}

TEST_CASE("callers, claims and tiles at once: every tile runs once, and no scratch is used twice at a time") {
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Claims claims("omp-tasks", threads);
    struct Run {
      std::array<std::atomic<int>, kMaxThreads> in_use{};
      std::atomic<int> tiles{0}, wrong{0};
    };
    std::atomic<int> wrong{0};
    const auto body = [&](Worker& worker) {
      Run run;
      worker.expect(1e6);
      for (int k = 1; k <= 20; ++k) {
        worker.run_tiles(
            k,
            [](void* arg, int64_t, int by) {
              auto* const own = static_cast<Run*>(arg);
              own->wrong += ++own->in_use[size_t(by)] != 1;
              ++own->tiles;
              --own->in_use[size_t(by)];
            },
            &run, 0);
      }
      wrong += run.wrong + (run.tiles != 210);
    };
    std::vector<std::thread> callers;
    constexpr int kRounds = 100;
    for (int i = 0; i < 3; ++i) {
      callers.emplace_back([&] {
        // Refused while the team's threads hold every slot; what is published ends, so each caller has its turns.
        for (int accepted = 0; accepted < kRounds; std::this_thread::yield())
          accepted += on_caller(*claims.scheduler, body);
      });
    }
    for (int i = 0; i < kRounds; ++i) claims.publish(body);
    for (std::thread& caller : callers) caller.join();
    claims.wait_ended(kRounds);
    CHECK(wrong == 0);
    CHECK(claims.most_running <= threads);
  }
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
