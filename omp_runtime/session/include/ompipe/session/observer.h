// What a session tells whoever records it: one event a task, milestones, samples of memory. Declared here, implemented
// above.
#pragma once

#include <cstdint>
#include <string_view>

namespace ompipe::session {

enum class TaskKind : uint8_t { read, prepack, publish, segment, evict, persist, transfer };
enum class Scope : uint8_t { session, invocation };
enum class ResourceClass : uint8_t { io, cpu, inline_, device };
enum class Priority : uint8_t { critical, prefetch, background };
enum class ByteSource : uint8_t { none, portable, companion, memory };

// The moments a report names (contract.md, `milestones`), each recorded once, the first time.
enum class Milestone : uint8_t {
  metadata,
  resolved,
  planned,
  session_ready,
  first_read,
  first_prepack,
  first_publish,
  first_runnable,
  first_segment,
  first_output,
  first_token,
  payloads_available,
  fully_prepared,
  end,
};
inline constexpr int kMilestones = int(Milestone::end) + 1;

// A finished task. Times are CLOCK_MONOTONIC nanoseconds; `cpu_ns` is on the clock of the thread that ran it, and for a
// segment also on those of the threads that helped with its tiles (0 for reads).
struct TaskEvent {
  uint64_t task = 0;  // unique in the runtime
  TaskKind kind = TaskKind::read;
  Scope scope = Scope::session;
  ResourceClass resource = ResourceClass::cpu;
  Priority original = Priority::background, effective = Priority::background;
  ByteSource source = ByteSource::none;
  int32_t executor = 0;  // the scheduler's instance id
  int32_t lane = 0;      // which thread: compute thread, kIoLane + i, kCoordinatorLane, kDeviceLane
  int32_t object = -1, chunk = -1, segment = -1, invocation = -1;
  uint32_t generation = 0;
  uint64_t bytes = 0;  // read, packed or evicted
  uint64_t bytes_in_flight = 0;
  uint64_t queued_ns = 0;  // when it could have started: gate opened, read submitted
  uint64_t start_ns = 0, end_ns = 0, cpu_ns = 0;
  std::string_view name;  // of the object or segment; lives as long as the plan
};
inline constexpr int32_t kIoLane = 1000, kCoordinatorLane = 2000, kDeviceLane = 3000;

// Thread rule: called from any thread of the runtime, at any time between the opening of the runtime and its close.
// Must not block, must not throw, should not allocate.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_task(const TaskEvent& event) noexcept = 0;
  virtual void on_milestone(Milestone milestone, uint64_t at_ns) noexcept = 0;
};

uint64_t now_ns();         // CLOCK_MONOTONIC
uint64_t thread_cpu_ns();  // CLOCK_THREAD_CPUTIME_ID

}  // namespace ompipe::session
