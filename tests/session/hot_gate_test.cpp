// The gate of hot runs: a claim and a close never both succeed, and what one did the other sees.
#include "hot_gate.h"

#include <doctest/doctest.h>

#include <barrier>
#include <random>
#include <thread>

namespace ompipe::session {
namespace {

void spin(unsigned turns) {
  for (unsigned i = 0; i < turns; ++i) asm volatile("");
}

}  // namespace

TEST_SUITE_BEGIN("hot_gate");

TEST_CASE("claim before close, close before claim, leave between them") {
  HotGate gate;
  CHECK_FALSE(gate.claim());
  CHECK(gate.close());  // a refused claim holds nothing
  gate.open();
  gate.open();
  CHECK(gate.epoch() == 1);
  CHECK(gate.claim());
  CHECK(gate.claim());
  CHECK_FALSE(gate.close());
  CHECK_FALSE(gate.claim());
  gate.leave(1, 1);
  CHECK_FALSE(gate.close());
  gate.leave(2, 1);
  CHECK(gate.close());
  CHECK(gate.epoch() == 2);
  gate.open();
  CHECK(gate.claim());
  gate.leave(3, 1);
}

TEST_CASE("a run is expected eight times as long as the last came after the one before, at first as it was predicted") {
  HotGate gate;
  CHECK_FALSE(gate.expects_run(5));
  gate.open();
  const auto run = [&](uint64_t end_ns, uint64_t predicted_ns) {
    REQUIRE(gate.claim());
    gate.leave(end_ns, predicted_ns);
  };
  run(1000, 10);
  CHECK(gate.expects_run(1079));
  CHECK_FALSE(gate.expects_run(1080));
  run(1500, 10);
  CHECK(gate.expects_run(5499));
  CHECK_FALSE(gate.expects_run(5500));
  run(1400, 10);  // a run that ended earlier may say so later
  CHECK_FALSE(gate.expects_run(1401));
  CHECK(gate.last_end_ns() == 1400);
}

// What the gate guards is plain memory: claimed, it must not change; closed and unpinned, it may.
TEST_CASE("of a claim and a close at once at most one succeeds, and claims never see what an eviction writes") {
  HotGate gate;
  int resident = 0;
  constexpr int kRounds = 20'000;
  std::atomic<int> claimed{0}, wrong{0};
  int evicted = 0;
  std::barrier step(3);
  const auto claimer = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < kRounds; ++round) {
      step.arrive_and_wait();
      spin(random() % 64);
      if (gate.claim()) {
        ++claimed;
        const int before = resident;
        spin(random() % 16);
        wrong += before != resident || before % 2 != 0;
        gate.leave(uint64_t(round), 1);
      }
      step.arrive_and_wait();
    }
  };
  std::thread first(claimer, 1), second(claimer, 2);
  std::mt19937 random(3);
  for (int round = 0; round < kRounds; ++round) {
    gate.open();
    step.arrive_and_wait();
    spin(random() % 64);
    if (gate.close()) {
      ++evicted;
      ++resident;  // gone
      spin(random() % 16);
      ++resident;  // loaded again
    }
    step.arrive_and_wait();
  }
  first.join();
  second.join();
  CHECK(wrong.load() == 0);
  CHECK(claimed.load() > 0);
  CHECK(evicted > 0);
}

TEST_SUITE_END();

}  // namespace ompipe::session
