// The bookkeeping of hot runs: how many can be claimed, the places in which they run, and who helps them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ompipe/schedule/limits.h"

namespace ompipe::schedule {

// Of a team of `threads`. Any thread; all counts are sequentially consistent, so that a thread that is about to park
// sees what was written before it looked. Masks have a bit a compute thread.
class HotLedger {
 public:
  explicit HotLedger(int threads) : threads_(threads), team_limit_(threads) {}

  // Invocations that can be claimed. One is counted once it can be found; it may be claimed even earlier.
  void published() { claimable_.fetch_add(1); }
  void taken() { claimable_.fetch_sub(1); }
  int claimable() const { return claimable_.load(); }

  // Places: as many as the team has threads, whoever runs in them; fewer for the team itself while something cold is
  // live. -1: none is free. A place that was taken before the limit fell is kept: until its run ends, or, if its thread
  // hasn't claimed one yet, it may still claim even one that is published later.
  int take_place();
  void free_place(int place) { places_.fetch_and(~(uint64_t(1) << place)); }
  int take_team_place();
  void free_team_place(int place);
  void limit_team(bool cold_lives);
  // Whether a compute thread that looked would find something to claim and a place for it.
  bool may_claim() const;

  // Helpers: a run wants some, not those of `beside`, on whose cores or scratch it runs itself. Which of the team may
  // help at all: at most one thread a core.
  void set_helpers(uint64_t mask) { helpers_.store(mask); }
  uint64_t helpers() const { return helpers_.load(); }
  // Returns how many are missing that have to be woken.
  int want(int helpers, uint64_t beside);
  void end_want(int helpers, uint64_t beside);
  bool wanted() const { return wanted_.load() > 0; }
  bool beside_caller(int worker) const { return beside_[size_t(worker)].load() > 0; }
  // Whether begin_help(worker) would succeed.
  bool wants(int worker) const;
  // No more threads help than are wanted.
  bool begin_help(int worker);
  void end_help(int worker) { helping_.fetch_and(~(uint64_t(1) << worker)); }

 private:
  static_assert(kMaxThreads <= 64);

  const int threads_;
  std::atomic<uint64_t> helpers_{0};
  alignas(64) std::atomic<int32_t> claimable_{0};
  std::atomic<int32_t> on_team_{0}, team_limit_;
  std::atomic<uint64_t> places_{0};
  alignas(64) std::atomic<int32_t> wanted_{0};
  std::atomic<uint64_t> helping_{0};
  std::array<std::atomic<int16_t>, kMaxThreads> beside_{};
};

}  // namespace ompipe::schedule
