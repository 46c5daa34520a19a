#include "ompipe/trace/recorder.h"

#include <sys/mman.h>

#include <algorithm>
#include <type_traits>

#include "ompipe/arenas/error.h"

namespace ompipe::trace {

using session::TaskEvent;

// What lets a slot live in zeroed pages without a constructor having run.
static_assert(std::is_trivially_copyable_v<TaskEvent> && std::is_trivially_destructible_v<TaskEvent>);

namespace {

void* map_zeroed(size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  OMPIPE_CHECK(base != MAP_FAILED, "no address space for the event buffer");
  return base;
}

}  // namespace

Recorder::Recorder(size_t capacity)
    : capacity_(capacity), slots_(static_cast<Slot*>(map_zeroed(capacity * sizeof(Slot)))) {}

Recorder::~Recorder() { munmap(slots_, capacity_ * sizeof(Slot)); }

void Recorder::on_task(const TaskEvent& event) noexcept {
  AtomicSum& sum = sums_[size_t(event.kind)];
  sum.tasks.fetch_add(1, std::memory_order_relaxed);
  sum.wall_ns.fetch_add(event.end_ns - event.start_ns, std::memory_order_relaxed);
  sum.cpu_ns.fetch_add(event.cpu_ns, std::memory_order_relaxed);
  const uint64_t index = claimed_.fetch_add(1, std::memory_order_relaxed);
  if (index >= capacity_) return;
  slots_[index].event = event;
  std::atomic_ref<uint8_t>(slots_[index].complete).store(1, std::memory_order_release);
}

void Recorder::on_milestone(session::Milestone milestone, uint64_t at_ns) noexcept {
  uint64_t absent = 0;
  milestones_[size_t(milestone)].compare_exchange_strong(absent, at_ns, std::memory_order_relaxed);
}

std::vector<TaskEvent> Recorder::events() const {
  const uint64_t claimed = std::min<uint64_t>(claimed_.load(std::memory_order_relaxed), capacity_);
  std::vector<TaskEvent> found;
  found.reserve(claimed);
  for (uint64_t i = 0; i < claimed; ++i) {
    if (std::atomic_ref<uint8_t>(slots_[i].complete).load(std::memory_order_acquire)) found.push_back(slots_[i].event);
  }
  return found;
}

uint64_t Recorder::dropped() const {
  const uint64_t claimed = claimed_.load(std::memory_order_relaxed);
  return claimed > capacity_ ? claimed - capacity_ : 0;
}

KindSum Recorder::sum(session::TaskKind kind) const {
  const AtomicSum& sum = sums_[size_t(kind)];
  return {sum.tasks.load(std::memory_order_relaxed), sum.wall_ns.load(std::memory_order_relaxed),
          sum.cpu_ns.load(std::memory_order_relaxed)};
}

std::optional<uint64_t> Recorder::milestone_ns(session::Milestone milestone) const {
  const uint64_t at = milestones_[size_t(milestone)].load(std::memory_order_relaxed);
  return at ? std::optional(at) : std::nullopt;
}

}  // namespace ompipe::trace
