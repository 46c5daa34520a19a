// Every bound of the schedulers in one place, with the relations between them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ompipe::schedule {

inline constexpr int kMaxThreads = 64;        // compute threads of one team
inline constexpr int kMaxLoadTokens = 64;     // chunks between admission and the report of their prepack
inline constexpr int kMaxPublishTokens = 48;  // objects between admission and the report of their last named consumer
inline constexpr int kMaxSlots = 8;           // invocations that are live at once
inline constexpr int kSegmentsAhead = 2;      // of one invocation: the running one and one created ahead
inline constexpr int kMaxNamed = 24;          // publish gates that one segment names

inline constexpr int kDefaultLoadTokens = 48;
inline constexpr int kDefaultPublishTokens = 32;

// libomp runs a task in its creator when the creator's deque of 256 is full, and the coordinator must never compute:
// gate bodies, opened prepacks and segments all wait in its deque (design_scheduling.md, "Tokens").
inline constexpr int kCoordinatorDeque = 224;
static_assert(kMaxLoadTokens + kMaxPublishTokens + (kMaxThreads + 1) + kSegmentsAhead * kMaxSlots <= kCoordinatorDeque);
#ifdef __clang__
inline constexpr bool kLibomp = true;
#else
inline constexpr bool kLibomp = false;
#endif

// Tasks created and unfinished that a team of `threads` and the coordinator can hold: all pools in use. Under libgomp a
// small team holds fewer: beyond 64 a thread it runs every task in its creator and aborts on a gate, each thread may
// have reported one that still counts, and there is one for hot invocations.
inline constexpr int kMaxTasks = 2 * kMaxLoadTokens + kMaxPublishTokens + kSegmentsAhead * kMaxSlots;
constexpr int max_tasks(int threads) { return kLibomp ? kMaxTasks : std::min(kMaxTasks, 63 * (threads + 1) - 1); }

// The most load tokens that keep to that beside so many publish tokens and all slots.
constexpr int load_tokens_that_fit(int threads, int publish_tokens) {
  return (max_tasks(threads) - publish_tokens - kSegmentsAhead * kMaxSlots) / 2;
}
static_assert(load_tokens_that_fit(1, kMaxPublishTokens) >= kMaxNamed);
static_assert(kDefaultLoadTokens <= kMaxLoadTokens && kDefaultPublishTokens <= kMaxPublishTokens);
static_assert(kMaxNamed <= kDefaultPublishTokens);

// A kernel with less predicted work than this wakes nobody: a futex wake costs its caller 5 us, and the woken thread
// runs 27 us later (facts of the design, measured).
inline constexpr double kWakeAboveNs = 100'000;

// How long the helpers of a hot run spin for the next one after it has ended.
inline constexpr uint64_t kHotGraceNs = 50'000;

}  // namespace ompipe::schedule
