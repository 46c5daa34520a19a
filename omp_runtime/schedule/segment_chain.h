// Which created segments wait for what, and whose they are: their unpublished gates and their predecessor, counted in
// the serial context, and one word each that their body and a cancellation exchange.
#pragma once

#include <array>
#include <atomic>
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

// Whose the unreported segments of one slot are. Nobody's until its body begins or it is taken back: whoever changes
// the word first has it. A segment's word is used again once it has reported.
class SegmentWords {
 public:
  // Serial context.
  void created() { word(created_++).store(kWaiting); }
  // The newest first: while its predecessor may still be taken back, a segment can't have begun unnoticed. `live`: how
  // many are unreported. Returns how many have been taken back.
  int take_back(int live);

  // The chain's bodies, one after the other. begin() is false if the segment has been taken back.
  bool begin() { return word(ended_.load(std::memory_order_acquire)).exchange(kBegun) == kWaiting; }
  // Before the report. Orders the next body after this one.
  void end() { ended_.store(ended_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  static constexpr uint8_t kWaiting = 0, kBegun = 1, kTaken = 2;
  std::atomic<uint8_t>& word(uint32_t segment) { return words_[segment % kSegmentsAhead]; }

  uint32_t created_ = 0;
  std::atomic<uint32_t> ended_{0};
  std::array<std::atomic<uint8_t>, kSegmentsAhead> words_{};
};

}  // namespace ompipe::schedule
