// The exact bookkeeping by which compute threads find work, park and are woken: counts of what can run, a bound on
// searching, one event count.
#pragma once

#include <atomic>
#include <cstdint>

#include "ompipe/schedule/hot_ledger.h"
#include "ompipe/schedule/scheduler.h"

namespace ompipe::schedule {

// Announce, look again, then sleep on the announced epoch; whoever makes work visible first and wakes after can't be
// missed.
// Any thread. Method: D. Vyukov's event count over a futex, with sequentially consistent counts.
class EventCount {
 public:
  uint32_t announce();
  void cancel();
  // A sleeper is of some kinds, a wake-up for some: bits, all of them unless it matters.
  void sleep(uint32_t epoch, uint32_t kinds = ~uint32_t(0));
  void wake(int threads, uint32_t kinds = ~uint32_t(0));

 private:
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<int32_t> waiters_{0};
};

// Counts of tasks that can run and have not started, of kernels with tiles left, of hot invocations that can be
// claimed, and of threads that search. A task is added only once it can be found, so that nobody spins for a task in
// the making; its body may even start first (a count is then -1 for a moment). Any thread.
class Ledger {
 public:
  explicit Ledger(int threads = 1) : hot(threads) {}

  void add(TaskClass task_class);      // and wakes one thread
  void started(TaskClass task_class);  // its body has begun
  // Speculative to critical; false, and undone, when it came too late. While it undoes it may hide from the body that
  // started last that nothing critical is left, so a caller that gets false must ask take_withheld too.
  bool promote(std::atomic<uint8_t>& class_word);

  int critical() const { return critical_.load(); }
  // Reads speculative before critical: a promotion raises the second before it lowers the first, so that a task on its
  // way is counted once or twice, never missed.
  int dispatchable() const {
    const int speculative = speculative_.load();
    return speculative + critical_.load();
  }

  // At most as many threads search libomp's locked deques as there are tasks to be found.
  bool begin_search();
  void end_search();

  // Kernels: whoever takes the last tile takes the kernel off.
  void open_tiles(int wake_threads);
  void close_tiles();
  bool has_tiles() const { return tiles_.load() > 0; }

  // Hot invocations and those who help them.
  HotLedger hot;
  void publish_hot();  // and wakes one thread
  void pass_hot_on();  // a place is free again: wakes one thread if something can be claimed
  void want_helpers(int helpers, uint64_t beside);  // wakes those that are missing

  // Sleeps unless there is work for the compute thread `worker`, or `stopped`.
  void park(const std::atomic<bool>& stopped, int worker = 0);
  void wake_all();
  // Wakes one thread if more can run than is searched for. Whoever turns to a kernel's tiles or to a hot run calls it:
  // the task whose wake-up brought that thread would otherwise wait, beside sleeping threads, until those end.
  void pass_on();

  // withhold: true while critical work waits; whoever starts the last of it then owes the serial context one message,
  // which take_withheld claims. (Without it a speculative gate that was held back would stay closed until some other
  // message came.)
  bool withhold();
  bool take_withheld();

 private:
  // More can run than is searched for. Reads the tasks first: a searcher that found one leaves `searching` before it
  // takes the task off, so the other order would hide a second task behind it.
  bool unsearched() const {
    const int tasks = dispatchable();
    return tasks > searching_.load();
  }

  alignas(64) std::atomic<int32_t> critical_{0};
  alignas(64) std::atomic<int32_t> speculative_{0};
  alignas(64) std::atomic<int32_t> tiles_{0};
  alignas(64) std::atomic<int32_t> searching_{0};
  alignas(64) std::atomic<bool> withheld_{false};
  EventCount parked_;
};

// A load's class word: closed until its gate opens, then its TaskClass, then started.
inline constexpr uint8_t kWordClosed = 0xff, kWordStarted = 0xfe;

}  // namespace ompipe::schedule
