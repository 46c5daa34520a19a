#include "ompipe/schedule/ledger.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace ompipe::schedule {
namespace {

// A futex tells 32 kinds of sleepers apart.
constexpr int kKinds = 32;

uint32_t kind_of(int worker) { return uint32_t(1) << worker % kKinds; }

}  // namespace

uint32_t EventCount::announce() {
  waiters_.fetch_add(1);
  return epoch_.load();
}

void EventCount::cancel() { waiters_.fetch_sub(1); }

void EventCount::sleep(uint32_t epoch, uint32_t kinds) {
  while (epoch_.load(std::memory_order_acquire) == epoch) {
    syscall(SYS_futex, &epoch_, FUTEX_WAIT_BITSET_PRIVATE, epoch, nullptr, nullptr, kinds);
  }
  waiters_.fetch_sub(1);
}

void EventCount::wake(int threads, uint32_t kinds) {
  epoch_.fetch_add(1);
  if (waiters_.load() > 0) syscall(SYS_futex, &epoch_, FUTEX_WAKE_BITSET_PRIVATE, threads, nullptr, nullptr, kinds);
}

void Ledger::add(TaskClass task_class) {
  (task_class == TaskClass::critical ? critical_ : speculative_).fetch_add(1);
  parked_.wake(1);
}

void Ledger::started(TaskClass task_class) {
  (task_class == TaskClass::critical ? critical_ : speculative_).fetch_sub(1);
}

bool Ledger::promote(std::atomic<uint8_t>& class_word) {
  uint8_t expected = uint8_t(TaskClass::speculative);
  if (class_word.load() != expected) return false;
  critical_.fetch_add(1);
  if (class_word.compare_exchange_strong(expected, uint8_t(TaskClass::critical))) {
    speculative_.fetch_sub(1);
    return true;
  }
  critical_.fetch_sub(1);
  return false;
}

bool Ledger::begin_search() {
  const int searching = searching_.fetch_add(1);
  if (searching < dispatchable()) return true;
  searching_.fetch_sub(1);
  return false;
}

void Ledger::end_search() { searching_.fetch_sub(1); }

void Ledger::open_tiles(int wake_threads) {
  tiles_.fetch_add(1);
  if (wake_threads > 0) parked_.wake(wake_threads);
}

void Ledger::close_tiles() { tiles_.fetch_sub(1); }

void Ledger::publish_hot() {
  hot.published();
  parked_.wake(1);
}

void Ledger::pass_hot_on() {
  if (hot.may_claim()) parked_.wake(1);
}

void Ledger::want_helpers(int helpers, uint64_t beside) {
  const int missing = hot.want(helpers, beside);
  if (missing <= 0) return;
  const uint64_t wanted = hot.helpers() & ~beside;
  parked_.wake(missing, uint32_t(wanted) | uint32_t(wanted >> kKinds));
}

void Ledger::park(const std::atomic<bool>& stopped, int worker) {
  const uint32_t epoch = parked_.announce();
  if (has_tiles() || unsearched() || hot.may_claim() || hot.wants(worker) || stopped.load()) {
    parked_.cancel();
  } else {
    parked_.sleep(epoch, kind_of(worker));
  }
}

void Ledger::pass_on() {
  if (unsearched()) parked_.wake(1);
}

void Ledger::wake_all() { parked_.wake(INT_MAX); }

bool Ledger::withhold() {
  if (critical_.load() <= 0) return false;
  withheld_.store(true);
  if (critical_.load() > 0) return true;
  withheld_.store(false);
  return false;
}

bool Ledger::take_withheld() { return critical_.load() <= 0 && withheld_.load() && withheld_.exchange(false); }

}  // namespace ompipe::schedule
