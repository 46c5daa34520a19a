// Where an invocation stands in its plan: the ranges that it is in, and how far each object's next use may be.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ompipe/model/reader.h"
#include "ompipe/plan/plan.h"

namespace ompipe::session {

// A stack of ranges. A segment that chooses leaves it undecided until it has reported; nothing is created across it.
// Serial context.
class ProgramCounter {
 public:
  struct Level {
    plan::RangeId range = plan::kNone;
    bool loop = false;
    int64_t trip = 0;  // of a Loop's body: the pass, from 0
  };

  // The first segment, of no task yet.
  void start(const plan::PreparedExecutionPlan& plan);
  // A task was created for the segment at `next`.
  void created(const plan::PreparedExecutionPlan& plan);
  // The segment that left it undecided has reported this choice.
  void decide(const plan::PreparedExecutionPlan& plan, int32_t chosen);

  // What is created next; segments.size(): nothing. While undecided: the first that may be.
  plan::SegmentId next() const { return next_; }
  bool undecided() const { return undecided_; }
  plan::SegmentId chooser() const { return chooser_; }  // while undecided
  bool ended(const plan::PreparedExecutionPlan& plan) const {
    return !undecided_ && next_ == plan::SegmentId(plan.segments.size());
  }
  uint32_t tasks() const { return tasks_; }  // created
  uint32_t again() { return tasks_++; }      // one more for a segment that goes on; its number
  // The pass of the innermost Loop around `next`; -1: there is none.
  int64_t trip() const;

  // The fewest segments from `next` to one that uses the object, over all choices that are open; -1: none will.
  int64_t distance(const plan::PreparedExecutionPlan& plan, plan::ObjectId object) const;
  // The same as a count of tasks since the start; for an object that is not used again, when the next run may.
  uint64_t step_of_next_use(const plan::PreparedExecutionPlan& plan, plan::ObjectId object) const;

 private:
  void move(const plan::PreparedExecutionPlan& plan, plan::SegmentId from, plan::SegmentId to);
  void measure(const plan::PreparedExecutionPlan& plan) const;

  plan::SegmentId next_ = 0, chooser_ = plan::kNone;
  bool undecided_ = false;
  uint32_t tasks_ = 0;
  std::array<Level, model::kDeepestSubgraph> levels_;  // outermost first
  size_t depth_ = 0;
  // Of plans with ranges: by segment, from `next`; -1: it can't be reached any more. Measured when it is asked for: a
  // run that nothing is evicted beside never does.
  mutable bool measured_ = false;
  mutable std::vector<int32_t> distance_;
  mutable std::vector<plan::SegmentId> queue_;
};

}  // namespace ompipe::session
