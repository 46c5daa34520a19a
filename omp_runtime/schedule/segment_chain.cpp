#include "segment_chain.h"

#include <algorithm>

namespace ompipe::schedule {

bool SegmentChains::create(SlotToken slot, std::span<const PublishToken> named) {
  Chain& chain = chains_[size_t(slot)];
  OMPIPE_CHECK(chain.live < kSegmentsAhead && named.size() <= kMaxNamed);
  Segment& segment = chain.segments[size_t(chain.live)];
  segment.named_count = int(named.size());
  std::copy(named.begin(), named.end(), segment.named.begin());
  segment.waits = segment.named_count + (chain.live > 0 ? 1 : 0);
  ++chain.live;
  return segment.waits == 0;
}

bool SegmentChains::Segment::take(PublishToken token) {
  for (int i = 0; i < named_count; ++i) {
    if (named[size_t(i)] != token) continue;
    named[size_t(i)] = named[size_t(--named_count)];
    return --waits == 0;
  }
  return false;
}

int SegmentWords::take_back(int live) {
  int taken = 0;
  for (uint8_t expected = kWaiting; taken < live; ++taken, expected = kWaiting) {
    if (!word(created_ - 1 - uint32_t(taken)).compare_exchange_strong(expected, kTaken)) break;
  }
  return taken;
}

}  // namespace ompipe::schedule
