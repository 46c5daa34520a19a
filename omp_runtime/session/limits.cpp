// Limits that change while the runtime is open: refused, or kept to as soon as what is in use has been given back.
#include <algorithm>

#include "policy.h"

namespace ompipe::session {

using arenas::BudgetLimits;
using arenas::Domain;
using arenas::DomainBytes;

namespace {

// A limit that isn't lowered refuses nothing.
BudgetLimits lowered(const BudgetLimits& now, const BudgetLimits& wanted) {
  BudgetLimits result = wanted;
  for (const Domain domain : arenas::kDomains) {
    if (wanted.domain_bytes[domain] >= now.domain_bytes[domain]) result.domain_bytes[domain] = arenas::kUnlimited;
  }
  if (wanted.global_bytes >= now.global_bytes && wanted.critical_reserve_bytes <= now.critical_reserve_bytes)
    result.global_bytes = arenas::kUnlimited;
  return result;
}

}  // namespace

// Whether these limits leave room for so many bytes, for the largest gang of every session beside them, and for what
// was accepted and has not started.
Status Policy::suffice(const BudgetLimits& limits, const DomainBytes& live) const {
  Status status = ok_status();
  for (size_t i = 0; i < sessions_.size() && status.ok(); ++i) status = fits(limits, *sessions_[i], live);
  for (size_t i = 0; i < pending_.size() && status.ok(); ++i)
    status = fits(limits, *pending_[i]->session, memory_of(*pending_[i]->work));
  for (size_t i = 0; i < preparations_.size() && status.ok(); ++i) {
    if (!preparations_[i]->error) status = fits(limits, *preparations_[i]);
  }
  // Without a session what is live is results: nobody tells the policy when their callers give them back.
  if (status.ok()) status = arenas::Budget::fits_limits(limits, live, "set limits", "live runs and results");
  return status;
}

// Frames that are only kept for the next hot run are no reason to refuse a limit.
void Policy::set_limits(const BudgetLimits& limits, Completion& done) {
  const BudgetLimits binding = lowered(budget_.limits(), limits);
  Status status = suffice(binding, {});
  if (status.ok()) {
    do {
      status = suffice(binding, live_beside_gangs());
    } while (!status.ok() && trim_idle());
  }
  if (!status.ok()) {
    Error error = status.error();
    error.phase = "set limits";
    return done.complete(std::move(error));
  }
  budget_.set_limits(limits);
  releases_.push_back({.done = &done, .leaving = {}, .limits = true});
}

bool Policy::within_limits() {
  const BudgetLimits limits = budget_.limits();
  budget_.trim_to(limits.global_bytes);
  const arenas::BudgetUsage usage = budget_.usage();
  return usage.global_bytes <= limits.global_bytes &&
         std::all_of(arenas::kDomains.begin(), arenas::kDomains.end(),
                     [&](Domain domain) { return usage[domain].live_bytes <= limits.domain_bytes[domain]; });
}

// While somebody waits for it: what preparations have reserved and not drawn, frames that are kept, and objects that
// are not pinned go at once, the others as soon as they may. What is in flight goes when it arrives.
void Policy::keep_to_limits() {
  if (std::none_of(releases_.begin(), releases_.end(), [](const Release& release) { return release.limits; })) return;
  const auto too_much_there = [&] {
    return budget_.usage()[Domain::device].live_bytes > budget_.limits().domain_bytes[Domain::device];
  };
  const auto too_much_here = [&] {
    return !fits_without({}, {{Domain::prepared, leaving_bytes_}, {Domain::device, arenas::kUnlimited}});
  };
  if (too_much_there() || too_much_here()) withdraw_preparations();
  while (too_much_there() && evict_one(Domain::device, kNobody) > 0) {
  }
  while (too_much_here()) {
    if (trim_helps({}) && trim_idle()) continue;
    if (evict_one(Domain::prepared, kNobody) == 0) return;
  }
}

}  // namespace ompipe::session
