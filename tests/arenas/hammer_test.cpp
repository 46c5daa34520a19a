// Several threads on one budget and all arenas at once, near the limit: for the sanitizers, and for the ledger.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/prepared_arena.h"

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

constexpr int kThreads = 4, kRounds = 120, kObjectsPerThread = 6;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kObjectBytes = 150'000, kChunkBytes = 128 << 10;

struct Shared {
  Budget budget{{.global_bytes = 4 * kMiB, .critical_reserve_bytes = kMiB / 2}};
  BlockArena preparation{budget, {.domain = Domain::preparation, .retention_cap_bytes = kMiB}};
  BlockArena execution{budget, {.domain = Domain::execution}};
  std::unique_ptr<PreparedArena> prepared;
  std::atomic<int> granted{0}, refused{0}, wrong{0}, over_limit{0};
};

bool holds(const Allocation& block, std::byte mark) {
  return block.data()[0] == mark && block.data()[block.bytes() - 1] == mark;
}

// One object: reserve its gang, fill it from a chunk, run a frame beside it, check that nobody else wrote there.
void load(Shared& shared, size_t object, Urgency urgency, std::vector<Allocation>& resident) {
  const DomainBytes gang{{Domain::prepared, PreparedArena::rounded_bytes(kObjectBytes)},
                         {Domain::preparation, BlockArena::rounded_bytes(kChunkBytes)}};
  auto granted = shared.budget.reserve(gang, urgency);
  (granted ? shared.granted : shared.refused)++;
  if (!granted) return;
  const std::byte mark = std::byte(object + 1);
  Allocation packed = shared.prepared->commit(object, *granted);
  if (!holds(packed, std::byte{0})) shared.wrong++;
  Result<Allocation> chunk = shared.preparation.allocate(*granted, kChunkBytes);
  std::memset(chunk->data(), int(mark), chunk->bytes());
  std::memset(packed.data(), int(mark), packed.bytes());
  if (Result<Allocation> frame = shared.execution.allocate(50'000 * (object % 5 + 1), urgency, "frame"); frame)
    std::memset(frame->data(), 0xff, frame->bytes());
  if (!holds(*chunk, mark) || !holds(packed, mark)) shared.wrong++;
  if (shared.budget.usage().global_bytes > shared.budget.usage().global_limit_bytes) shared.over_limit++;
  resident[object % kObjectsPerThread] = std::move(packed);
}

void work(Shared& shared, int thread) {
  std::mt19937 random{unsigned(thread)};
  std::vector<Allocation> resident(kObjectsPerThread);
  for (int round = 0; round < kRounds; round++) {
    const size_t slot = random() % kObjectsPerThread, object = size_t(thread) * kObjectsPerThread + slot;
    if (resident[slot] && !holds(resident[slot], std::byte(object + 1))) shared.wrong++;
    resident[slot].reset();
    load(shared, object, random() % 2 ? Urgency::critical : Urgency::speculative, resident);
    if (round % 40 == 39) shared.budget.trim();
  }
}

}  // namespace

TEST_SUITE("hammer") {
  TEST_CASE("threads that load, run and evict near the limit") {
    for (PreparedLayout layout : {PreparedLayout::packed, PreparedLayout::separate}) {
      Shared shared;
      shared.prepared =
          std::move(PreparedArena::create(shared.budget,
                                          std::vector<uint64_t>(kThreads * kObjectsPerThread, kObjectBytes), layout))
              .value();
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; t++) threads.emplace_back([&shared, t] { work(shared, t); });
      threads.clear();
      CHECK(shared.wrong == 0);
      CHECK(shared.over_limit == 0);
      CHECK(shared.granted > kRounds);
      CHECK(shared.budget.usage().global_peak_bytes <= 4 * kMiB);
      CHECK(shared.budget.audit() == "");
    }
  }
}
