#include "ompipe/schedule/hot_ledger.h"

#include <algorithm>
#include <bit>

namespace ompipe::schedule {

int HotLedger::take_place() {
  uint64_t taken = places_.load();
  for (;;) {
    const int place = std::countr_one(taken);
    if (place >= threads_) return -1;
    if (places_.compare_exchange_weak(taken, taken | uint64_t(1) << place)) return place;
  }
}

// One count after the other, each only if it was free: a thread that gives the first one up again is awake, and looks
// anew.
int HotLedger::take_team_place() {
  int32_t running = on_team_.load();
  do {
    if (running >= team_limit_.load()) return -1;
  } while (!on_team_.compare_exchange_weak(running, running + 1));
  const int place = take_place();
  if (place < 0) on_team_.fetch_sub(1);
  return place;
}

void HotLedger::free_team_place(int place) {
  free_place(place);
  on_team_.fetch_sub(1);
}

void HotLedger::limit_team(bool cold_lives) { team_limit_.store(cold_lives ? std::max(1, threads_ - 1) : threads_); }

bool HotLedger::may_claim() const {
  return claimable_.load() > 0 && on_team_.load() < team_limit_.load() && std::popcount(places_.load()) < threads_;
}

int HotLedger::want(int helpers, uint64_t beside) {
  for (uint64_t left = beside; left != 0; left &= left - 1) beside_[size_t(std::countr_zero(left))].fetch_add(1);
  const int wanted = wanted_.fetch_add(helpers) + helpers;
  return std::min(helpers, wanted - std::popcount(helping_.load() & ~beside));
}

void HotLedger::end_want(int helpers, uint64_t beside) {
  wanted_.fetch_sub(helpers);
  for (uint64_t left = beside; left != 0; left &= left - 1) beside_[size_t(std::countr_zero(left))].fetch_sub(1);
}

bool HotLedger::wants(int worker) const {
  return (helpers() >> worker & 1) != 0 && !beside_caller(worker) && std::popcount(helping_.load()) < wanted_.load();
}

bool HotLedger::begin_help(int worker) {
  uint64_t helping = helping_.load();
  do {
    if (!wants(worker) || std::popcount(helping) >= wanted_.load()) return false;
  } while (!helping_.compare_exchange_weak(helping, helping | uint64_t(1) << worker));
  return true;
}

}  // namespace ompipe::schedule
