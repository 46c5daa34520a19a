// What the parts of a runtime are given, out of the caller's options: shared by the runtime and by the prediction of
// its accounting.
#pragma once

#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/prepared_arena.h"
#include "ompipe/session/options.h"
#include "policy.h"

namespace ompipe::session {

arenas::BudgetLimits budget_limits(const MemoryLimits& limits);

// The other way round, with what isn't the budget's.
MemoryLimits memory_limits(const arenas::BudgetLimits& limits, uint64_t io_inflight_bytes, uint64_t retained_bytes);

// One rule for the three arenas of blocks.
arenas::BlockArenaOptions block_arena(arenas::Domain domain, const MemoryLimits& limits,
                                      const arenas::MemoryBinding& binding);

// `options.threads` has been resolved; the sequential scheduler has one whatever it says.
PolicyOptions policy_options(const RuntimeOptions& options);

// Whether the largest gang of a plan fits the token pools; usage, with the numbers, if not.
Status tokens_suffice(const RuntimeOptions& options, const plan::PreparedExecutionPlan& plan);

// Where nothing limits residency, objects share huge pages.
arenas::PreparedLayout prepared_layout(const MemoryLimits& limits);

}  // namespace ompipe::session
