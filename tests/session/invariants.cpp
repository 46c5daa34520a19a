#include "invariants.h"

#include <fmt/format.h>

#include <algorithm>

namespace ompipe::session::testing {

// A plan that has taken the place of one that is gone takes its names over too.
void Invariants::watch(const plan::PreparedExecutionPlan& plan) {
  std::lock_guard lock(mutex_);
  const char* const key = plan.objects.front().name.data();
  sessions_[key] = {&plan, std::vector<Object>(plan.objects.size())};
  for (const plan::PreparedObject& object : plan.objects) names_[object.name.data()] = key;
  for (const plan::Segment& segment : plan.segments) names_[segment.name.data()] = key;
}

void Invariants::on_task(const TaskEvent& event) noexcept {
  std::lock_guard lock(mutex_);
  ++seen_[event.kind];
  Session* const session = session_of(event);
  if (!session) return breaks(event, "is of no session");
  if (event.kind == TaskKind::segment) return segment_seen(*session, event);
  object_seen(session->objects[size_t(event.object)], event);
}

Invariants::Session* Invariants::session_of(const TaskEvent& event) {
  const auto name = names_.find(event.name.data());
  return name == names_.end() ? nullptr : &sessions_.at(name->second);
}

// Slices that are read for their rows are told under the object's last generation, whatever has become of it.
void Invariants::object_seen(Object& object, const TaskEvent& event) {
  if (event.generation < object.generation) return breaks(event, "comes after the next generation has begun");
  if (event.generation > object.generation) {
    if (object.published) breaks(event, "begins a generation while the last one is resident");
    object.generation = event.generation;
  }
  if (event.kind == TaskKind::publish) {
    if (object.published) breaks(event, "is published twice");
    object.published = true;
  }
  if (event.kind == TaskKind::evict) {
    if (!object.published) breaks(event, "is evicted and was not resident");
    if (event.start_ns < object.last_consumer_ns) breaks(event, "was evicted under a consumer");
    object.published = false;
    object.chosen_ns = event.start_ns;
  }
}

void Invariants::segment_seen(Session& session, const TaskEvent& event) {
  for (const plan::ObjectId id : session.plan->segments[size_t(event.segment)].requirements) {
    Object& object = session.objects[size_t(id)];
    if (session.plan->objects[size_t(id)].row_addressable) continue;  // its rows may have been there without it
    if (!object.published) breaks(event, "ran while an object that it needs was not resident");
    if (object.chosen_ns > event.start_ns) breaks(event, "lost an object that it needs while it ran");
    object.last_consumer_ns = std::max(object.last_consumer_ns, event.end_ns);
  }
}

void Invariants::breaks(const TaskEvent& event, const std::string& what) {
  constexpr size_t kEnough = 20;
  if (broken_.size() < kEnough)
    broken_.push_back(fmt::format("event {} of kind {}, {}, generation {}: {}", event.task, int(event.kind),
                                  std::string(event.name), event.generation, what));
}

std::vector<std::string> Invariants::broken() {
  std::lock_guard lock(mutex_);
  return broken_;
}

uint64_t Invariants::seen(TaskKind kind) {
  std::lock_guard lock(mutex_);
  return seen_[kind];
}

}  // namespace ompipe::session::testing
