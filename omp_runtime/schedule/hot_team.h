// Hot runs on the threads of a team and on callers' threads: whose scratch a caller takes, who helps, and for how long.
#pragma once

#include <sched.h>

#include <atomic>
#include <vector>

#include "ompipe/schedule/ledger.h"
#include "ompipe/schedule/scheduler.h"
#include "ompipe/schedule/tiles.h"

namespace ompipe::schedule {

// Thread rule: place is one thread's, before the first run; help and run_claimable are called by compute threads,
// run_on_caller by any other. A compute thread that begins hot work hands on the wake-up of a task that it may have had
// (Ledger::pass_on).
class HotTeam {
 public:
  HotTeam(Ledger& ledger, TileSharing& tiles, Director& director, int threads)
      : ledger_(ledger), tiles_(tiles), director_(director), threads_(threads) {}

  // Where each compute thread may run; `all` is the mask of a thread that is not bound.
  void place(const std::vector<cpu_set_t>& bound, const cpu_set_t& all);

  // Takes a place, claims something and runs it as thread `worker`; false if there was nothing, or no place.
  bool run_claimable(int worker);
  // Takes a place and calls body on this thread; false, without a call, if there is none.
  bool run_on_caller(CallerBody body, void* arg);
  // Helps the hot runs that want it, spinning, and for a short time after the last; until something more urgent can
  // run, or `stopped`.
  void help(int worker, const std::atomic<bool>& stopped);

 private:
  class HotWorker;

  Ledger& ledger_;
  TileSharing& tiles_;
  Director& director_;
  const int threads_;
  std::vector<uint64_t> beside_cpu_;  // by CPU: the threads bound to it
};

}  // namespace ompipe::schedule
