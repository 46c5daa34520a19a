// Records what a session reports while it runs: events into a buffer of fixed size, milestones, sums of task time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ompipe/session/observer.h"

namespace ompipe::trace {

inline constexpr int kTaskKinds = int(session::TaskKind::transfer) + 1;

// Events that a recorder holds by default: 136 bytes each, whose pages are touched only when they are written.
inline constexpr size_t kDefaultEvents = size_t{1} << 17;

// Task time of one kind, summed over all tasks, the dropped ones too.
struct KindSum {
  uint64_t tasks = 0, wall_ns = 0, cpu_ns = 0;
};

// Thread rule: on_task and on_milestone from any thread, without lock or allocation: a slot is claimed by one fetch_add
// and shown by one release store. Everything else from any thread too; events() holds those that were complete when it
// looked. Event names belong to the plan, so events are read while the plan lives.
class Recorder final : public session::Observer {
 public:
  explicit Recorder(size_t capacity = kDefaultEvents);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void on_task(const session::TaskEvent& event) noexcept override;
  // The first time counts; later ones are ignored.
  void on_milestone(session::Milestone milestone, uint64_t at_ns) noexcept override;

  std::vector<session::TaskEvent> events() const;
  uint64_t dropped() const;  // events that found the buffer full
  KindSum sum(session::TaskKind kind) const;
  std::optional<uint64_t> milestone_ns(session::Milestone milestone) const;

 private:
  struct Slot {
    session::TaskEvent event;
    uint8_t complete;  // through std::atomic_ref
  };
  struct AtomicSum {
    std::atomic<uint64_t> tasks{0}, wall_ns{0}, cpu_ns{0};
  };

  const size_t capacity_;
  Slot* const
      slots_;  // an anonymous mapping: a page that nobody has written costs nothing and reads as incomplete slots
  std::atomic<uint64_t> claimed_{0};
  std::array<AtomicSum, kTaskKinds> sums_;
  std::array<std::atomic<uint64_t>, session::kMilestones> milestones_{};  // 0: did not happen
};

const char* task_kind_name(session::TaskKind kind);
const char* scope_name(session::Scope scope);
const char* resource_name(session::ResourceClass resource);
const char* priority_name(session::Priority priority);
const char* source_name(session::ByteSource source);
const char* milestone_name(session::Milestone milestone);

}  // namespace ompipe::trace
