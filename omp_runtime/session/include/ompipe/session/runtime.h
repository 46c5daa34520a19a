// A runtime: the scheduler's threads, the I/O service, the budgets and one policy, leased by any number of sessions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/session/options.h"

namespace ompipe::session {

// Figures of one memory domain, in bytes.
struct DomainFigures {
  uint64_t limit = 0, live = 0, peak = 0, retained = 0;
};

// Of the runtime's device; `id` is empty where there is none.
struct DeviceFigures {
  std::string id, behaviour;
  uint64_t batches = 0, uploaded_bytes = 0, read_back_bytes = 0;
  uint64_t shared_loads = 0;  // one read for the CPU's form of a weight and the device's
};

// A snapshot for the report. Names are the contract's.
struct RuntimeFigures {
  std::string scheduler, scheduling_slice, openmp_runtime;
  bool fallback_used = false;
  int threads = 0, io_threads = 0, executor = 0;
  std::map<std::string, std::string> openmp_environment;  // variables that are set
  std::string placement;
  std::vector<std::string> unbound;             // threads that could not be bound to their places, and why
  std::map<std::string, DomainFigures> arenas;  // preparation, prepared, mapped, execution, io, device
  uint64_t global_peak_bytes = 0;
  uint64_t logical_read_bytes = 0, physical_read_bytes = 0, portable_read_bytes = 0, copied_bytes = 0, mapped_bytes = 0;
  double read_s = 0, io_cpu_s = 0;
  uint64_t tasks_created = 0, segments = 0, promotions = 0, gates_opened = 0, peak_bytes_in_flight = 0, evictions = 0,
           rematerialised = 0, fallbacks = 0, ran_on_coordinator = 0;
  DeviceFigures device;
};

class RuntimeCore;  // private

// Thread rule: every function may be called from any thread. In a child forked from the process that opened it,
// whatever belongs to it is unusable: figures are empty, all else that can fails with an error that names fork, and
// destructors do nothing (what they would free is left alone, until the child ends or calls exec).
class Runtime {
 public:
  // Starts the scheduler's threads and the I/O threads. Errors: usage for an unknown scheduler or placement,
  // environment when the environment forbids the scheduler asked for and no fallback is named (the reason names the
  // variable, or fork: a child of a process that had an OpenMP region can have `sequential` only), or when the system
  // refuses threads.
  static Result<std::shared_ptr<Runtime>> open(const RuntimeOptions& options);
  // Waits for every handle, drains the scheduler, joins the I/O threads. All sessions must be closed before.
  ~Runtime();

  // The limits in force. None in a forked child.
  MemoryLimits limits() const;
  // Other limits from now on, for all that is asked for. A lowered one is refused (cannot_fit, with the numbers;
  // nothing has changed then) if the execution and output bytes that are live, results in callers' hands among them, no
  // longer fit, if the largest gang of an open session no longer fits beside these, or if a run that is pending or a
  // preparation under way no longer fits; usage, if io_inflight_bytes differs. Else objects that nobody has pinned are
  // evicted, the farthest next use first, until what is left fits, and the call returns when all that is live does:
  // when running segments have given their pins back, chunks in flight have been packed, and evicted pages have gone.
  // Raising a limit wakes whoever waits for room. Must not be called from the runtime's own threads (an observer).
  Status set_limits(const MemoryLimits& limits);
  // Gives back what nobody uses, until what the global limit counts (live and retained bytes of all domains but mapped)
  // is at most `bytes`, or nothing is left to give: retained memory, then the frames kept for hot runs, the least
  // recently used first, then objects that nobody has pinned, the farthest next use first. Takes nothing from a run, a
  // preparation's reservation or a result that a caller holds, and binds nothing later. Returns when the pages have
  // gone, with what is counted then. As set_limits, not from the runtime's own threads.
  Result<uint64_t> Trim(uint64_t bytes);

  RuntimeFigures figures() const;
  // Live bytes, tokens, pins, reads, events: every one of them zero when no session is open. For tests.
  Status audit() const;

  RuntimeCore& core() { return *core_; }

 private:
  explicit Runtime(std::unique_ptr<RuntimeCore> core);
  std::unique_ptr<RuntimeCore> core_;
};

}  // namespace ompipe::session
