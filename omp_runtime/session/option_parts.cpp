#include "option_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace ompipe::session {

using arenas::Domain;

arenas::BudgetLimits budget_limits(const MemoryLimits& limits) {
  arenas::BudgetLimits result;
  result.global_bytes = limits.global_bytes;
  result.domain_bytes[Domain::preparation] = limits.preparation_bytes;
  result.domain_bytes[Domain::prepared] = limits.prepared_bytes;
  result.domain_bytes[Domain::mapped] = limits.mapped_bytes;
  result.domain_bytes[Domain::execution] = limits.execution_bytes;
  result.domain_bytes[Domain::io] = limits.io_bytes;
  result.critical_reserve_bytes = limits.critical_reserve_bytes;
  return result;
}

MemoryLimits memory_limits(const arenas::BudgetLimits& limits, uint64_t io_inflight_bytes, uint64_t retained_bytes) {
  return {.global_bytes = limits.global_bytes,
          .preparation_bytes = limits.domain_bytes[Domain::preparation],
          .prepared_bytes = limits.domain_bytes[Domain::prepared],
          .mapped_bytes = limits.domain_bytes[Domain::mapped],
          .execution_bytes = limits.domain_bytes[Domain::execution],
          .io_bytes = limits.domain_bytes[Domain::io],
          .io_inflight_bytes = io_inflight_bytes,
          .critical_reserve_bytes = limits.critical_reserve_bytes,
          .retained_bytes = retained_bytes};
}

arenas::BlockArenaOptions block_arena(Domain domain, const MemoryLimits& limits, const arenas::MemoryBinding& binding) {
  return {.domain = domain, .retention_cap_bytes = limits.retained_bytes, .binding = binding};
}

PolicyOptions policy_options(const RuntimeOptions& options) {
  PolicyOptions result;
  result.threads = options.scheduler == "sequential" ? 1 : options.threads;
  result.io_threads = options.io_threads;
  result.hot = true;
  if (options.load_tokens > 0) result.load_tokens = options.load_tokens;
  if (options.publish_tokens > 0) result.publish_tokens = options.publish_tokens;
  result.load_tokens =
      std::min(result.load_tokens, schedule::load_tokens_that_fit(result.threads, result.publish_tokens));
  return result;
}

Status tokens_suffice(const RuntimeOptions& options, const plan::PreparedExecutionPlan& plan) {
  const PolicyOptions pools = policy_options(options);
  const int needed = plan.largest_gang.objects;
  const int there = std::min({pools.load_tokens, pools.publish_tokens, schedule::kMaxNamed});
  if (needed <= there) return ok_status();
  return Error{ErrorKind::usage, "plan", plan.model->metadata().path,
               fmt::format("a segment needs {} objects at once; the token pools allow {}", needed, there)};
}

arenas::PreparedLayout prepared_layout(const MemoryLimits& limits) {
  const bool limited = limits.prepared_bytes != kUnlimited || limits.global_bytes != kUnlimited;
  return limited ? arenas::PreparedLayout::separate : arenas::PreparedLayout::packed;
}

}  // namespace ompipe::session
