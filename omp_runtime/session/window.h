// How far look-ahead goes in a session with a residency limit: a number of segments that follows what it leads to.
#pragma once

#include <algorithm>

#include "ompipe/plan/plan.h"

namespace ompipe::session {

// Counted in segments behind the created ones. Moves by events of the policy, not by time: one segment more whenever
// compute waits for a read, back to what there was room for whenever there is no room. Serial context only.
class Window {
 public:
  static constexpr plan::SegmentId kFirst = 2;

  explicit Window(plan::SegmentId most) : most_(most), segments_(std::min(kFirst, most)) {}

  plan::SegmentId segments() const { return segments_; }
  plan::SegmentId most() const { return most_; }
  // The next segment to run waits for an object.
  void waited() { segments_ = std::min(segments_ + 1, most_); }
  // There was room for so many segments only.
  void no_room_beyond(plan::SegmentId segments) { segments_ = std::min(segments_, std::max(1, segments)); }

 private:
  plan::SegmentId most_, segments_;  // most: as --look-ahead says, or the plan's
};

}  // namespace ompipe::session
