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

// Whether these limits leave room for the largest gang of every session beside so many bytes, and for what was accepted
// and has not started.
Status Policy::suffice(const BudgetLimits& limits, uint64_t execution_bytes, uint64_t output_bytes) const {
  Status status = ok_status();
  for (size_t i = 0; i < sessions_.size() && status.ok(); ++i)
    status = fits(limits, *sessions_[i], execution_bytes, output_bytes);
  for (size_t i = 0; i < pending_.size() && status.ok(); ++i) {
    const DomainBytes memory = memory_of(*pending_[i]->work);
    status = fits(limits, *pending_[i]->session, memory[Domain::execution], memory[Domain::io]);
  }
  for (size_t i = 0; i < preparations_.size() && status.ok(); ++i) {
    if (!preparations_[i]->error) status = fits(limits, *preparations_[i]);
  }
  return status;
}

// Frames that are only kept for the next hot run are no reason to refuse a limit.
void Policy::set_limits(const BudgetLimits& limits, Completion& done) {
  const BudgetLimits binding = lowered(budget_.limits(), limits);
  const auto beside_live = [&] {
    const arenas::BudgetUsage usage = budget_.usage();
    return suffice(binding, usage[Domain::execution].live_bytes, usage[Domain::io].live_bytes);
  };
  Status status = suffice(binding, 0, 0);
  if (status.ok()) {
    do {
      status = beside_live();
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
  if (!fits_without({}, leaving_bytes_)) withdraw_preparations();
  while (!fits_without({}, leaving_bytes_)) {
    if (trim_helps({}) && trim_idle()) continue;
    if (!evict_one(kNobody)) return;
  }
}

}  // namespace ompipe::session
