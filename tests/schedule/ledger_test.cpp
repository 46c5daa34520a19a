// The ledger's counts, the race between a promotion and the body it is for, and wake-ups that must not be lost.
#include "ompipe/schedule/ledger.h"

#include <doctest/doctest.h>

#include <barrier>
#include <random>
#include <thread>
#include <vector>

namespace ompipe::schedule {
namespace {

constexpr uint8_t kSpeculativeWord = uint8_t(TaskClass::speculative), kCriticalWord = uint8_t(TaskClass::critical);

void spin(unsigned turns) {
  for (unsigned i = 0; i < turns; ++i) asm volatile("");
}

}  // namespace

TEST_SUITE_BEGIN("ledger");

TEST_CASE("each class is counted apart, and a body may start before its task is counted") {
  Ledger ledger;
  ledger.add(TaskClass::speculative);
  CHECK(ledger.critical() == 0);
  CHECK(ledger.dispatchable() == 1);
  ledger.started(TaskClass::critical);
  CHECK(ledger.critical() == -1);
  ledger.add(TaskClass::critical);
  ledger.started(TaskClass::speculative);
  CHECK(ledger.dispatchable() == 0);
}

TEST_CASE("no more threads search than there are tasks to be found") {
  Ledger ledger;
  CHECK_FALSE(ledger.begin_search());
  ledger.add(TaskClass::critical);
  ledger.add(TaskClass::speculative);
  CHECK(ledger.begin_search());
  CHECK(ledger.begin_search());
  CHECK_FALSE(ledger.begin_search());
  ledger.end_search();
  CHECK(ledger.begin_search());
}

TEST_CASE("only an opened speculative task can be promoted") {
  Ledger ledger;
  for (const uint8_t closed_to_promotion : {kWordClosed, kWordStarted, kCriticalWord}) {
    std::atomic<uint8_t> word{closed_to_promotion};
    CHECK_FALSE(ledger.promote(word));
    CHECK(word.load() == closed_to_promotion);
    CHECK(ledger.dispatchable() == 0);
  }
  std::atomic<uint8_t> word{kSpeculativeWord};
  ledger.add(TaskClass::speculative);
  CHECK(ledger.promote(word));
  CHECK(word.load() == kCriticalWord);
  CHECK(ledger.critical() == 1);
  CHECK(ledger.dispatchable() == 1);
}

TEST_CASE("a promotion and the body's start agree on the count, whoever comes first") {
  Ledger ledger;
  std::atomic<uint8_t> word{kSpeculativeWord};
  std::atomic<int> promoted{0}, found_critical{0};
  constexpr int kRounds = 20'000;
  std::barrier step(2);
  std::thread body([&] {
    std::mt19937 random(1);
    for (int round = 0; round < kRounds; ++round) {
      step.arrive_and_wait();
      spin(random() % 64);
      const auto found = TaskClass(word.exchange(kWordStarted));
      ledger.started(found);
      found_critical += found == TaskClass::critical;
      step.arrive_and_wait();
    }
  });
  std::mt19937 random(2);
  bool counts_right = true;
  for (int round = 0; round < kRounds; ++round) {
    word = kSpeculativeWord;
    ledger.add(TaskClass::speculative);
    step.arrive_and_wait();
    spin(random() % 64);
    promoted += ledger.promote(word);
    step.arrive_and_wait();
    counts_right = counts_right && ledger.critical() == 0 && ledger.dispatchable() == 0 && word == kWordStarted;
  }
  body.join();
  CHECK(counts_right);
  CHECK(promoted.load() == found_critical.load());
}

// One critical task is waiting and speculation is held back for it. While its body starts, a promotion of another task
// comes too late and is undone: the message that is owed must be claimed by one of the two threads.
TEST_CASE("a promotion that comes too late does not swallow the message that speculation waits for") {
  Ledger ledger;
  constexpr int kRounds = 20'000;
  std::atomic<uint8_t> word{kSpeculativeWord};
  std::atomic<int> begun{0}, ended{0}, claims{0};
  std::thread bodies([&] {
    std::mt19937 random(1);
    for (int round = 1; round <= kRounds; ++round) {
      while (begun.load() < round) std::this_thread::yield();
      spin(random() % 16);
      const auto found = TaskClass(word.exchange(kWordStarted));
      ledger.started(TaskClass::critical);
      if (ledger.take_withheld()) claims = round;
      ledger.started(found);
      if (ledger.take_withheld()) claims = round;
      ended = round;
    }
  });
  std::mt19937 random(2);
  int lost = 0;
  for (int round = 1; round <= kRounds; ++round) {
    word = kSpeculativeWord;
    ledger.add(TaskClass::speculative);
    ledger.add(TaskClass::critical);
    ledger.withhold();
    begun = round;
    spin(random() % 16);
    if (!ledger.promote(word) && ledger.take_withheld()) claims = round;
    while (ended.load() < round) std::this_thread::yield();
    lost += claims.load() != round;
  }
  bodies.join();
  CHECK(lost == 0);
  CHECK(ledger.dispatchable() == 0);
}

TEST_CASE("nothing is withheld while nothing critical waits") {
  Ledger ledger;
  CHECK_FALSE(ledger.withhold());
  CHECK_FALSE(ledger.take_withheld());
  ledger.add(TaskClass::critical);
  CHECK(ledger.withhold());
  CHECK_FALSE(ledger.take_withheld());
  ledger.started(TaskClass::critical);
  CHECK(ledger.take_withheld());
  CHECK_FALSE(ledger.take_withheld());
}

// One thread adds a task as soon as the one before has started, and never twice: one wake-up lost and all sleep for
// ever.
TEST_CASE("no wake-up is lost between threads that park and one that adds") {
  for (int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Ledger ledger;
    std::atomic<bool> stopped{false};
    std::atomic<int> available{0}, taken{0};
    std::vector<std::thread> team;
    for (int i = 0; i < threads; ++i) {
      team.emplace_back([&] {
        while (!stopped.load()) {
          if (ledger.begin_search()) {
            int tasks = available.load();
            const bool found = tasks > 0 && available.compare_exchange_strong(tasks, tasks - 1);
            ledger.end_search();
            if (found) {
              ledger.started(TaskClass::critical);
              ++taken;
              taken.notify_one();
            }
            continue;
          }
          ledger.park(stopped);
        }
      });
    }
    constexpr int kTasks = 20'000;
    for (int i = 0; i < kTasks; ++i) {
      ++available;
      ledger.add(TaskClass::critical);
      if (i % 3 != 0) taken.wait(i);  // two in three times they have gone, or are going, to sleep
      if (i % 3 == 2) spin(unsigned(i) % 512);
    }
    for (int seen = taken.load(); seen < kTasks; seen = taken.load()) taken.wait(seen);
    stopped = true;
    ledger.wake_all();
    for (std::thread& thread : team) thread.join();
    CHECK(taken.load() == kTasks);
    CHECK(ledger.dispatchable() == 0);
  }
}

// The task is the only one, and its promotion wakes nobody: if a thread that parks looks at one count before and at the
// other after it, and misses the task in both, it sleeps for ever.
TEST_CASE("a promotion does not hide its task from a thread that parks") {
  Ledger ledger;
  std::atomic<uint8_t> word{kWordStarted};
  std::atomic<bool> stopped{false};
  std::atomic<int> taken{0};
  std::thread thread([&] {
    while (!stopped.load()) {
      if (!ledger.begin_search()) {
        ledger.park(stopped);
        continue;
      }
      const uint8_t found = word.load() == kWordStarted ? kWordStarted : word.exchange(kWordStarted);
      ledger.end_search();
      if (found == kWordStarted) continue;
      ledger.started(TaskClass(found));
      ++taken;
      taken.notify_one();
    }
  });
  std::mt19937 random(1);
  constexpr int kTasks = 50'000;
  for (int i = 0; i < kTasks; ++i) {
    spin(random() % 256);  // the thread is going to sleep, or asleep
    word = kSpeculativeWord;
    ledger.add(TaskClass::speculative);
    spin(random() % 64);
    ledger.promote(word);
    taken.wait(i);
  }
  stopped = true;
  ledger.wake_all();
  thread.join();
  CHECK(taken.load() == kTasks);
  CHECK(ledger.dispatchable() == 0);
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
