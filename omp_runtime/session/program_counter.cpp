#include "program_counter.h"

#include <algorithm>
#include <utility>

#include "ompipe/arenas/error.h"

namespace ompipe::session {

using plan::PreparedExecutionPlan;
using plan::RangeId;
using plan::SegmentId;

void ProgramCounter::start(const PreparedExecutionPlan& plan) {
  if (!plan.flows()) return;
  distance_.resize(plan.segments.size());
  queue_.reserve(plan.segments.size());
  move(plan, plan::kNone, 0);
}

void ProgramCounter::created(const PreparedExecutionPlan& plan) {
  ++tasks_;
  if (!plan.flows()) {
    ++next_;
  } else if (plan.chooses(next_)) {
    undecided_ = true;
    chooser_ = next_;
    next_ = plan.after(chooser_, 0);
    measured_ = false;
  } else {
    move(plan, next_, plan.after(next_, 0));
  }
}

void ProgramCounter::decide(const PreparedExecutionPlan& plan, int32_t chosen) {
  OMPIPE_CHECK(undecided_, "a choice that nobody waits for");
  undecided_ = false;
  move(plan, chooser_, plan.after(chooser_, chosen));
}

// Ranges around both stay; a Loop's body that begins again is in its next pass.
void ProgramCounter::move(const PreparedExecutionPlan& plan, SegmentId from, SegmentId to) {
  next_ = to;
  std::array<RangeId, model::kDeepestSubgraph> around;
  size_t depth = 0;
  const bool inside = to < SegmentId(plan.segments.size());
  for (RangeId range = inside ? plan.segments[size_t(to)].range : plan::kNone; range != plan::kNone;
       range = plan.ranges[size_t(range)].parent)
    around[depth++] = range;
  std::reverse(around.begin(), around.begin() + ptrdiff_t(depth));
  for (size_t i = 0; i < depth; ++i) {
    if (i >= depth_ || levels_[i].range != around[i]) {
      levels_[i] = {around[i], plan.ranges[size_t(around[i])].loop, 0};
      depth_ = i + 1;  // what was further in has been left
    }
  }
  const plan::Range* const innermost = depth > 0 ? &plan.ranges[size_t(around[depth - 1])] : nullptr;
  const bool again = innermost && innermost->loop && to == innermost->begin && from == innermost->end - 1;
  if (again && depth <= depth_) ++levels_[depth - 1].trip;
  depth_ = depth;
  measured_ = false;
}

int64_t ProgramCounter::trip() const {
  for (size_t i = depth_; i-- > 0;) {
    if (levels_[i].loop) return levels_[i].trip;
  }
  return -1;
}

// Breadth first over all that may follow.
void ProgramCounter::measure(const PreparedExecutionPlan& plan) const {
  if (std::exchange(measured_, true)) return;
  const auto segments = SegmentId(plan.segments.size());
  std::fill(distance_.begin(), distance_.end(), -1);
  queue_.clear();
  const auto reach = [&](SegmentId segment, int32_t steps) {
    if (segment >= segments || distance_[size_t(segment)] >= 0) return;
    distance_[size_t(segment)] = steps;
    queue_.push_back(segment);
  };
  const auto follow = [&](SegmentId segment, int32_t steps) {
    const size_t choices = std::max<size_t>(plan.segments[size_t(segment)].next.size(), 1);
    for (size_t i = 0; i < choices; ++i) reach(plan.after(segment, int32_t(i)), steps);
  };
  if (undecided_) {
    follow(chooser_, 0);
  } else {
    reach(next_, 0);
  }
  for (size_t i = 0; i < queue_.size(); ++i) follow(queue_[i], distance_[size_t(queue_[i])] + 1);
}

int64_t ProgramCounter::distance(const PreparedExecutionPlan& plan, plan::ObjectId object) const {
  if (!plan.flows()) {
    const SegmentId use = plan.next_use(object, next_);
    return use == plan::kNone ? -1 : use - next_;
  }
  measure(plan);
  int64_t nearest = -1;
  for (const SegmentId use : plan.objects[size_t(object)].uses) {
    const int32_t steps = distance_[size_t(use)];
    if (steps >= 0 && (nearest < 0 || steps < nearest)) nearest = steps;
  }
  return nearest;
}

uint64_t ProgramCounter::step_of_next_use(const PreparedExecutionPlan& plan, plan::ObjectId object) const {
  const int64_t steps = distance(plan, object);
  if (steps >= 0) return tasks_ + uint64_t(steps);
  // Behind whatever may still come of this run.
  const uint64_t run = plan.segments.size() + (plan.flows() ? tasks_ : 0);
  return run + uint64_t(plan.objects[size_t(object)].uses.front());
}

}  // namespace ompipe::session
