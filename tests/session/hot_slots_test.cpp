// The slots of hot runs: one holder at a time, the oldest first, and no claim by a ticket of an earlier publication.
#include "hot_slots.h"

#include <doctest/doctest.h>

#include <barrier>
#include <random>
#include <thread>
#include <vector>

namespace ompipe::session {
namespace {

class NoWork : public InvocationWork {
 public:
  uint64_t execution_bytes() const override { return 0; }
  std::span<const uint64_t> output_bytes() const override { return {}; }
  void attach(arenas::Allocation, std::vector<arenas::Allocation>) override {}
  void finish(bool) override {}
};

int make_idle(HotSlots& slots, uint32_t session, uint64_t age) {
  const int slot = slots.take_empty();
  REQUIRE(slot >= 0);
  slots[slot].work = std::make_unique<NoWork>();
  slots[slot].age = age;
  slots.put_idle(slot, session);
  return slot;
}

CompletionRef publish(HotSlots& slots, int slot, uint32_t session, uint64_t age) {
  CompletionRef handle = slots.completion(slot);
  slots[slot].age = age;
  slots.publish(slot, session, handle->ticket);
  return handle;
}

}  // namespace

TEST_SUITE_BEGIN("hot_slots");

TEST_CASE("a slot is found by its session while it is idle, and by nobody else") {
  HotSlots slots;
  CHECK(slots.take_idle(1) == -1);
  CHECK(slots.take_oldest_idle(0) == -1);
  const int slot = make_idle(slots, 1, 5);
  CHECK(slots.filled() == 1);
  CHECK(slots.take_idle(2) == -1);
  CHECK(slots.take_oldest_idle(1) == -1);
  CHECK_FALSE(slots.busy());
  CHECK(slots.take_idle(1) == slot);
  CHECK(slots.busy(1));
  CHECK_FALSE(slots.busy(2));
  CHECK(slots.take_idle(1) == -1);
  CHECK(slots.take_oldest_idle(0) == -1);
  slots.put_idle(slot, 1);
  CHECK(slots.take_oldest_idle(2) == slot);
  slots.put_empty(slot);
  CHECK(slots.filled() == 0);
}

TEST_CASE("there are as many slots as there are, and the least recently used goes first") {
  HotSlots slots;
  for (int i = 0; i < HotSlots::kSlots; ++i) make_idle(slots, uint32_t(1 + i % 2), uint64_t(1000 - i));
  CHECK(slots.take_empty() == -1);
  const int oldest = slots.take_oldest_idle(1), second = slots.take_oldest_idle(1);
  CHECK(slots[oldest].age == 1000 - (HotSlots::kSlots - 1));
  CHECK(slots[second].age == slots[oldest].age + 2);
}

TEST_CASE("the oldest publication is claimed first; a ticket claims or withdraws its own and no later one") {
  HotSlots slots;
  const int a = make_idle(slots, 1, 1), b = make_idle(slots, 1, 2);
  REQUIRE(slots.take_idle(1) == a);
  REQUIRE(slots.take_idle(1) == b);
  const CompletionRef younger = publish(slots, a, 1, 9), elder = publish(slots, b, 1, 8);
  CHECK(slots.claimable(younger->ticket));
  CHECK(slots.claim_oldest() == b);
  CHECK_FALSE(slots.claim(elder->ticket));
  CHECK_FALSE(slots.withdraw(elder->ticket));
  slots.put_idle(b, 1);
  REQUIRE(slots.take_idle(1) == b);
  const CompletionRef later = publish(slots, b, 1, 10);
  CHECK_FALSE(slots.claim(elder->ticket));
  CHECK(slots.claim(later->ticket));
  CHECK(slots.withdraw(younger->ticket));
  CHECK(slots.claim_oldest() == -1);
  const CompletionRef unpublished = make_completion();
  CHECK_FALSE(slots.claimable(unpublished->ticket));
  CHECK_FALSE(slots.claim(unpublished->ticket));
}

TEST_CASE("a slot's handles' states are used again once nobody refers to them, as good as new") {
  HotSlots slots;
  const int slot = make_idle(slots, 1, 1);
  std::vector<CompletionRef> held;
  for (int i = 0; i < 6; ++i) {
    held.push_back(slots.completion(slot));
    for (int j = 0; j < i; ++j) CHECK_FALSE(held[size_t(j)] == held.back());
  }
  Completion* const first = held.front().get();
  first->diagnostics.failed_task = "segment";
  first->cancelled = true;
  first->complete(ok_status());
  held.clear();
  const CompletionRef again = slots.completion(slot);
  CHECK(again.get() == first);
  CHECK_FALSE(again->ready());
  CHECK(again->diagnostics.failed_task.empty());
  CHECK_FALSE(again->cancelled.load());
}

// Two threads claim, a third withdraws, a fourth trims what is idle: each round one of the first three gets the
// publication, or none if it was trimmed before; plain memory says who held it.
TEST_CASE("claims, a withdrawal and a trim at once: one holder") {
  HotSlots slots;
  constexpr int kRounds = 10'000;
  int holders = 0;  // plain: only the slot's word orders it
  std::atomic<int> gained{0}, trimmed{0}, wrong{0};
  std::barrier step(4);
  std::atomic<Completion*> handle{nullptr};
  const auto hold = [&](int slot) {
    wrong += ++holders != 1;
    for (int i = 0; i < 20; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    --holders;
    slots.put_idle(slot, 1);
    ++gained;
  };
  std::vector<std::thread> threads;
  for (int which = 0; which < 3; ++which) {
    threads.emplace_back([&, which] {
      std::mt19937 random{unsigned(which)};
      for (int round = 0; round < kRounds; ++round) {
        step.arrive_and_wait();
        for (unsigned i = 0; i < random() % 64; ++i) asm volatile("");
        if (which == 0) {
          if (const int slot = slots.claim_oldest(); slot >= 0) hold(slot);
        } else if (which == 1) {
          Completion& own = *handle.load();
          if (round % 2 ? slots.claim(own.ticket) : slots.withdraw(own.ticket)) hold(own.ticket.slot.load());
        } else if (const int slot = slots.take_oldest_idle(0); slot >= 0) {
          wrong += ++holders != 1;
          slots[slot].work.reset();
          --holders;
          slots.put_empty(slot);
          ++trimmed;
        }
        step.arrive_and_wait();
      }
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    int slot = slots.take_idle(1);
    if (slot < 0) slot = slots.take_empty();
    slots[slot].work = std::make_unique<NoWork>();
    slots[slot].completion = publish(slots, slot, 1, uint64_t(round));
    handle = slots[slot].completion.get();
    step.arrive_and_wait();
    step.arrive_and_wait();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
  CHECK(gained.load() == kRounds);
  CHECK(trimmed.load() > 0);
  CHECK(trimmed.load() <= kRounds);
  CHECK_FALSE(slots.busy());
}

TEST_SUITE_END();

}  // namespace ompipe::session
