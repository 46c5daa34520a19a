// When a segment of a chain can run: after its gates and its predecessor, in whatever order they report.
#include "segment_chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
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

TEST_CASE("a segment is its body's or whoever took it back, never both") {
  SegmentWords words;
  words.created();
  words.created();
  CHECK(words.take_back(2) == 2);
  CHECK(words.take_back(2) == 0);
  CHECK_FALSE(words.begin());
  words.end();
  words.created();  // the third takes the first one's place
  CHECK_FALSE(words.begin());
  words.end();
  CHECK(words.begin());
  CHECK(words.take_back(1) == 0);
  words.end();
}

TEST_CASE("only the tail that has not begun is taken back") {
  SegmentWords words;
  words.created();
  words.created();
  CHECK(words.begin());
  CHECK(words.take_back(2) == 1);
  words.end();
  CHECK(words.take_back(2) == 0);  // the first has ended and not reported
  CHECK_FALSE(words.begin());
  words.end();
  words.created();
  CHECK(words.take_back(0) == 0);
  CHECK(words.begin());
  words.end();
}

TEST_CASE("a body and a cancellation at the same time: one of them has it") {
  for (int round = 0; round < 20'000; ++round) {
    SegmentWords words;
    words.created();
    words.created();
    std::atomic<int> ready{0};
    const auto meet = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::array<bool, 2> ran{};
    std::thread bodies([&] {
      meet();
      for (bool& mine : ran) mine = words.begin(), words.end();
    });
    meet();
    const int taken = words.take_back(2);
    bodies.join();
    REQUIRE(ran[0] + ran[1] + taken == 2);
    REQUIRE((ran[0] || !ran[1]));
  }
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
