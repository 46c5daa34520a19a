// Which created segments wait for what: their unpublished gates and their predecessor, counted in the serial context.
#pragma once

#include <array>
#include <span>

#include "ompipe/schedule/scheduler.h"

namespace ompipe::schedule {

// A segment is dispatchable once every predecessor has reported. Serial context only.
class SegmentChains {
 public:
  // True if the new segment has nothing to wait for.
  bool create(SlotToken slot, std::span<const PublishToken> named);
  // Calls ready(slot) for each segment whose last predecessor was this gate, or this segment.
  template <class Ready>
  void published(PublishToken token, Ready ready) {
    for (int slot = 0; slot < kMaxSlots; ++slot) {
      Chain& chain = chains_[size_t(slot)];
      for (int i = 0; i < chain.live; ++i) {
        if (chain.segments[size_t(i)].take(token)) ready(slot);
      }
    }
  }
  template <class Ready>
  void segment_done(SlotToken slot, Ready ready) {
    Chain& chain = chains_[size_t(slot)];
    OMPIPE_CHECK(chain.live > 0 && chain.segments[0].waits == 0, "a segment reported that could not have run");
    chain.segments[0] = chain.segments[1];
    if (--chain.live > 0 && --chain.segments[0].waits == 0) ready(slot);
  }
  int live(SlotToken slot) const { return chains_[size_t(slot)].live; }

 private:
  struct Segment {
    int waits = 0;
    int named_count = 0;
    std::array<PublishToken, kMaxNamed> named;
    // True if that was the last thing it waited for.
    bool take(PublishToken token);
  };
  struct Chain {
    int live = 0;
    std::array<Segment, kSegmentsAhead> segments;
  };
  static_assert(kSegmentsAhead == 2);
  std::array<Chain, kMaxSlots> chains_;
};

}  // namespace ompipe::schedule
