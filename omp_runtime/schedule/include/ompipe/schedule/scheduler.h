// The interface behind which every scheduler runs the same policy: gates and tasks below, one serial director above.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ompipe/arenas/error.h"
#include "ompipe/schedule/limits.h"

namespace ompipe::schedule {

// Tokens are indices into small pools; whoever directs takes and returns them. A token may be used again once every
// task that names it has reported.
using LoadToken = int32_t;
using PublishToken = int32_t;
using SlotToken = int32_t;

// A task that can run and has not started is counted in one of two classes. Critical work goes first.
enum class TaskClass : uint8_t { speculative, critical };

// What the serial context is told. Kinds from kFirstFreeKind up are the director's own.
struct Message {
  enum Kind : uint8_t { prepacked, segment_done, room_for_speculation, stop, hot, first_free };
  uint8_t kind = first_free;
  int32_t id = -1;          // the token, for the first two; stop and hot are the schedulers' own
  void* payload = nullptr;  // the director's own
};

enum class ThreadRole : uint8_t { compute, coordinator };

using TileFunction = void (*)(void* arg, int64_t tile, int worker);

// The compute thread that a body runs on, or whose place a caller takes. Valid during the body.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual int index() const = 0;  // 0 .. threads - 1
  // Runs fn(arg, t, worker) for every t in [0, tiles), each once, on this thread and on idle compute threads that join;
  // returns when all have returned, their writes visible. Tiles of one call must not depend on one another.
  virtual void run_tiles(int64_t tiles, TileFunction fn, void* arg, double predicted_ns) = 0;
  // CPU time that other threads have spent in this body's tiles, as far as run_tiles has returned; 0 in a hot run.
  virtual uint64_t helpers_cpu_ns() const = 0;
  // Once, at the beginning of a hot run: all its work, which says how many helpers are worth a wake-up. They stay until
  // the body ends.
  virtual void expect(double predicted_ns) = 0;
};

// What a caller runs as if it were a compute thread.
using CallerBody = void (*)(void* arg, Worker& worker);

// Who directs a scheduler. Bodies are called on compute threads, everything else in the scheduler's serial context, one
// call at a time. Nothing may throw.
class Director {
 public:
  virtual ~Director() = default;
  virtual void prepack(LoadToken load, Worker& worker) noexcept = 0;
  virtual void segment(SlotToken slot,
                       Worker& worker) noexcept = 0;  // the slot's next segment, in the order of creation
  virtual void on_message(const Message& message) = 0;
  virtual void pump() = 0;  // after every batch of messages
  // On a compute thread, in a place: claims the oldest published invocation and runs it; -1: there was none. What it
  // returns is handed to ran_claimable, on the same thread, once the place is free again. A director that publishes
  // nothing has nothing to claim.
  virtual int run_claimable(Worker&) noexcept { return -1; }
  virtual void ran_claimable(int /*ticket*/) noexcept {}
  // Runs one queued read on the calling thread; false when none is queued. Called only by schedulers with inline_reads.
  virtual bool read_one() = 0;
  // First thing on each thread of the scheduler's own.
  virtual void thread_started(ThreadRole role, int index) = 0;
};

struct Capabilities {
  const char* name;
  bool overlap;       // reads, prepacks and segments of one run at the same time
  bool inline_reads;  // reads run in the serial context, when nothing else can
  bool shares_tiles;
  int max_tasks;  // created and unfinished: 2 a load, 1 a publish gate, 1 a segment; the director's pools keep to it
};

struct Counters {
  uint64_t tasks_created = 0, segments = 0, promotions = 0, gates_opened = 0, ran_on_coordinator = 0, tiles_helped = 0;
};

struct SchedulerOptions {
  int threads = 1;
  int io_threads = 0;                 // for the environment's check only: threads beside the team
  std::optional<uint64_t> seed = {};  // sequential: order of what is ready; none: order of release
};

// Thread rule: post, counters and what is said of hot invocations from any thread; everything else in the serial
// context only.
class Scheduler {
 public:
  virtual ~Scheduler() = default;  // every task must have reported; returns when the threads have left

  virtual Capabilities capabilities() const = 0;
  virtual int threads() const = 0;
  virtual Counters counters() const = 0;
  virtual const char* scheduling_slice() const = 0;  // sched_setattr, nice or none

  virtual void post(const Message& message) = 0;

  // A load gate and the prepack behind it. The body runs after open_load, and after nothing else.
  virtual void create_load(LoadToken load) = 0;
  virtual void open_load(LoadToken load, TaskClass task_class) = 0;
  // Makes an opened prepack critical unless it has started. Nothing happens to a critical one.
  virtual void promote_load(LoadToken load) = 0;

  // A publish gate. Segments that name it run after publish.
  virtual void create_publish(PublishToken token) = 0;
  virtual void publish(PublishToken token) = 0;

  // The next segment of a slot's chain: runs after the slot's previous one and after every gate named (each created and
  // not yet published). At most kSegmentsAhead of a slot are unreported.
  virtual void create_segment(SlotToken slot, std::span<const PublishToken> named) = 0;
  // Takes back those of a slot's created segments that have not started, always the newest ones: their bodies call
  // nobody, but each still reports segment_done in its turn. Returns how many.
  virtual int take_back(SlotToken slot) = 0;

  // Hot invocations: one more can be claimed, and a thread is woken for it; one has been claimed or withdrawn, by
  // whoever did it. At most threads() run at once.
  virtual void publish_hot() = 0;
  virtual void taken_hot() = 0;
  // Calls body on this thread, which is none of the scheduler's, as a compute thread that others may help; false,
  // without a call, if threads() hot invocations run already.
  virtual bool run_on_caller(CallerBody body, void* arg) = 0;
  // While something cold is live, the team keeps a thread for it, or its only one takes turns. Serial context.
  virtual void limit_hot(bool cold_lives) = 0;

  // True while some critical task could start. If it returns true, a message room_for_speculation follows when none can
  // any more.
  virtual bool critical_waiting() = 0;
};

// Starts the scheduler's threads. `director` must outlive it. Errors: usage for an unknown name; environment when
// settings in force or the team itself make the scheduler unusable (the reason names the variable), or when the system
// refuses a thread.
Result<std::unique_ptr<Scheduler>> open_scheduler(const std::string& name, const SchedulerOptions& options,
                                                  Director& director);

}  // namespace ompipe::schedule
