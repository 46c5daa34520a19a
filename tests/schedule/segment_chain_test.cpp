// When a segment of a chain can run: after its gates and its predecessor, in whatever order they report.
#include "segment_chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace ompipe::schedule {
namespace {

std::vector<SlotToken> publish(SegmentChains& chains, PublishToken token) {
  std::vector<SlotToken> ready;
  chains.published(token, [&](SlotToken slot) { ready.push_back(slot); });
  return ready;
}

std::vector<SlotToken> finish(SegmentChains& chains, SlotToken slot) {
  std::vector<SlotToken> ready;
  chains.segment_done(slot, [&](SlotToken next) { ready.push_back(next); });
  return ready;
}

using Slots = std::vector<SlotToken>;

}  // namespace

TEST_SUITE_BEGIN("segment_chain");

TEST_CASE("a segment that names nothing and follows nothing can run at once") {
  SegmentChains chains;
  CHECK(chains.create(3, {}));
  CHECK_FALSE(chains.create(3, {}));
  CHECK(chains.live(3) == 2);
  CHECK(finish(chains, 3) == Slots{3});
  CHECK(finish(chains, 3).empty());
  CHECK(chains.live(3) == 0);
}

TEST_CASE("a segment is ready with the last of its gates, in every order") {
  std::vector<PublishToken> tokens = {2, 5, 7};
  do {
    SegmentChains chains;
    CHECK_FALSE(chains.create(0, std::vector<PublishToken>{2, 5, 7}));
    CHECK(publish(chains, tokens[0]).empty());
    CHECK(publish(chains, 9).empty());
    CHECK(publish(chains, tokens[1]).empty());
    CHECK(publish(chains, tokens[2]) == Slots{0});
  } while (std::next_permutation(tokens.begin(), tokens.end()));
}

TEST_CASE("a successor waits for its own gates and for its predecessor, whichever comes last") {
  for (const bool gate_first : {true, false}) {
    SegmentChains chains;
    CHECK(chains.create(1, {}));
    CHECK_FALSE(chains.create(1, std::vector<PublishToken>{4}));
    if (gate_first) {
      CHECK(publish(chains, 4).empty());
      CHECK(finish(chains, 1) == Slots{1});
    } else {
      CHECK(finish(chains, 1).empty());
      CHECK(publish(chains, 4) == Slots{1});
    }
  }
}

TEST_CASE("one gate releases segments of several slots, and of one slot only the first") {
  SegmentChains chains;
  CHECK_FALSE(chains.create(0, std::vector<PublishToken>{6}));
  CHECK_FALSE(chains.create(0, std::vector<PublishToken>{6}));
  CHECK_FALSE(chains.create(kMaxSlots - 1, std::vector<PublishToken>{6}));
  CHECK(publish(chains, 6) == Slots{0, kMaxSlots - 1});
  CHECK(finish(chains, 0) == Slots{0});
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
