#include "hot_team.h"

#include <time.h>

#include <algorithm>
#include <bit>

#include "float_mode.h"

namespace ompipe::schedule {
namespace {

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

// A helper that has nothing to do looks at the clock every so many turns.
constexpr int kTurnsPerLook = 16;

}  // namespace

// Runs tiles with the scratch of `worker` and offers them from the kernel place `entry`. Wakes nobody for a kernel.
class HotTeam::HotWorker : public Worker {
 public:
  HotWorker(HotTeam& team, int entry, int worker, uint64_t beside)
      : team_(team), entry_(entry), worker_(worker), beside_(beside) {}
  ~HotWorker() override {
    if (helpers_ > 0) team_.ledger_.hot.end_want(helpers_, beside_);
  }
  int index() const override { return worker_; }
  uint64_t helpers_cpu_ns() const override { return 0; }  // not measured
  void expect(double predicted_ns) override {
    const int possible = std::popcount(team_.ledger_.hot.helpers() & ~beside_);
    helpers_ = int(std::min(double(possible), predicted_ns / kWakeAboveNs));
    if (helpers_ > 0) team_.ledger_.want_helpers(helpers_, beside_);
  }
  void run_tiles(int64_t tiles, TileFunction fn, void* arg, double) override {
    if (helpers_ > 0) {
      team_.tiles_.lead_hot(entry_, worker_, tiles, fn, arg);
    } else {
      for (int64_t tile = 0; tile < tiles; ++tile) fn(arg, tile, worker_);
    }
  }

 private:
  HotTeam& team_;
  const int entry_, worker_;
  const uint64_t beside_;
  int helpers_ = 0;
};

// One helper a core: two on the same one would take turns there, and on a caller's they would hold up the caller.
void HotTeam::place(const std::vector<cpu_set_t>& bound, const cpu_set_t& all) {
  beside_cpu_.assign(CPU_SETSIZE, 0);
  uint64_t helpers = 0;
  int unbound_left = CPU_COUNT(&all);
  for (size_t worker = 0; worker < bound.size(); ++worker) {
    const uint64_t self = uint64_t(1) << worker;
    if (CPU_EQUAL(&bound[worker], &all)) {
      if (unbound_left-- > 0) helpers |= self;
      continue;
    }
    bool alone = true;
    for (size_t cpu = 0; cpu < beside_cpu_.size(); ++cpu) {
      if (!CPU_ISSET(cpu, &bound[worker])) continue;
      alone = alone && beside_cpu_[cpu] == 0;
      beside_cpu_[cpu] |= self;
    }
    if (alone) helpers |= self;
  }
  ledger_.hot.set_helpers(helpers);
}

bool HotTeam::run_claimable(int worker) {
  const int place = ledger_.hot.take_team_place();
  if (place < 0) return false;
  ledger_.pass_on();
  int ticket = -1;
  {
    HotWorker self(*this, worker, worker, uint64_t(1) << worker);
    ticket = director_.run_claimable(self);
  }
  ledger_.hot.free_team_place(place);
  ledger_.pass_hot_on();
  if (ticket < 0) return false;
  director_.ran_claimable(ticket);
  return true;
}

// The scratch of the compute thread that is bound to this core, which could not run beside the caller anyway.
bool HotTeam::run_on_caller(CallerBody body, void* arg) {
  const int place = ledger_.hot.take_place();
  if (place < 0) return false;
  const int cpu = sched_getcpu();
  uint64_t beside = cpu >= 0 && size_t(cpu) < beside_cpu_.size() ? beside_cpu_[size_t(cpu)] : 0;
  const int scratch = beside != 0 ? std::countr_zero(beside) : threads_ - 1;
  beside |= uint64_t(1) << scratch;
  {
    const DefaultFloatMode mode;
    HotWorker self(*this, threads_ + place, scratch, beside);
    body(arg, self);
  }
  ledger_.hot.free_place(place);
  ledger_.pass_hot_on();
  return true;
}

void HotTeam::help(int worker, const std::atomic<bool>& stopped) {
  HotLedger& hot = ledger_.hot;
  if (!hot.begin_help(worker)) return;
  ledger_.pass_on();
  uint64_t idle_since_ns = 0;
  for (int turn = 0; ledger_.critical() <= 0 && !hot.may_claim() && !hot.beside_caller(worker) &&
                     !stopped.load(std::memory_order_relaxed);
       ++turn) {
    if (tiles_.help(worker) || hot.wanted()) {
      idle_since_ns = 0;
    } else if (ledger_.dispatchable() > 0) {
      break;
    } else if (turn % kTurnsPerLook == 0) {
      const uint64_t now = now_ns();
      if (idle_since_ns == 0) idle_since_ns = now;
      if (now - idle_since_ns > kHotGraceNs) break;
    }
    __builtin_ia32_pause();
  }
  hot.end_help(worker);
}

}  // namespace ompipe::schedule
