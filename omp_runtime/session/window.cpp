// Look-ahead: what the segments of the window miss is read into free room; when there is none, a few of the objects
// that are used again last make way.
#include "window.h"

#include "policy.h"

namespace ompipe::session {

using arenas::Domain;
using arenas::DomainBytes;
using store::Residency;

namespace {

// The share of the residency limit that may hold objects which were read into made room and have not been reached yet.
// Everything else stays from token to token.
constexpr uint64_t kFewPart = 8;

}  // namespace

void Policy::look_ahead() {
  for (const std::unique_ptr<Invocation>& invocation : live_) {
    if (!invocation->error && invocation->session->options.mode != Mode::on_demand) look_ahead(*invocation);
  }
}

// Whether any limit keeps the session from having everything resident.
bool Policy::residency_limited(const SessionState& session) const {
  const arenas::BudgetLimits limits = budget_.limits();
  return session.plan->device_bytes > limits.domain_bytes[Domain::device] ||
         limits.domain_bytes[Domain::prepared] != kUnlimited || limits.global_bytes != kUnlimited;
}

// Without a residency limit there is no window but the caller's.
plan::SegmentId Policy::window_end(const Invocation& invocation) const {
  const SessionState& session = *invocation.session;
  const auto segments = plan::SegmentId(session.plan->segments.size());
  const plan::SegmentId window = residency_limited(session) ? session.window.segments() : session.window.most();
  return std::min(segments - invocation.counter.next(), window) + invocation.counter.next();
}

// Admits what the next segments miss, in order, bounded by distance and bytes. The cursor only moves on, so that no
// call looks at a segment again, until an eviction may have opened a hole.
void Policy::look_ahead(Invocation& invocation) {
  SessionState& session = *invocation.session;
  if (session.plan->flows()) return look_ahead_over(invocation);
  if (invocation.evictions_seen != session.evictions) {
    invocation.evictions_seen = session.evictions;
    invocation.looked_ahead = invocation.counter.next();
  }
  const std::optional<uint64_t> most_bytes = session.options.look_ahead.bytes;
  const plan::SegmentId end = window_end(invocation);
  plan::SegmentId segment = std::max(invocation.looked_ahead, invocation.counter.next());
  uint64_t ahead_bytes = 0;
  for (plan::SegmentId s = invocation.counter.next(); most_bytes && s < segment; ++s)
    ahead_bytes += session.plan->gangs[size_t(s)].prepared_bytes;
  for (; segment < end; ++segment) {
    ahead_bytes += session.plan->gangs[size_t(segment)].prepared_bytes;
    if (most_bytes && ahead_bytes > *most_bytes) break;
    for (const plan::ObjectId object : session.plan->segments[size_t(segment)].requirements) {
      if (session.store->state(object) != Residency::absent) continue;
      if (admit_ahead(invocation, segment, object) == Grant::refused) return;
    }
    invocation.looked_ahead = segment + 1;
  }
}

Policy::Grant Policy::admit_ahead(Invocation& invocation, plan::SegmentId segment, plan::ObjectId id) {
  SessionState& session = *invocation.session;
  Grant grant = admit_speculative(session, id, Priority::prefetch);
  if (grant == Grant::refused && residency_full(session.need_of(id))) {
    if (make_room_ahead(invocation, session.need_of(id))) grant = admit_speculative(session, id, Priority::prefetch);
    if (grant == Grant::refused) session.window.no_room_beyond(segment - invocation.counter.next());
  }
  if (grant == Grant::refused) return grant;
  session.objects[size_t(id)].ahead = true;
  session.ahead_bytes = sum_of(session.ahead_bytes, session.resident_of(id));
  return grant;
}

// Whether it is residency that refuses: the prepared bytes, or all bytes beside what is kept for critical work; or the
// bytes on the device.
bool Policy::residency_full(const DomainBytes& need) const {
  const DomainBytes asked = live_with(need);
  const arenas::BudgetLimits limits = budget_.limits();
  const uint64_t all = limits.critical_reserve_bytes + arenas::global_sum(asked);
  if (short_of(need) == Domain::device) return true;
  const bool global = limits.global_bytes != kUnlimited && all > limits.global_bytes;
  return global || asked[Domain::prepared] > limits.domain_bytes[Domain::prepared];
}

// For an object of the window: the objects of its own session that are used again last, beyond the window, go; as long
// as what was read ahead and has not been reached stays little. Least recent use says nothing about the next one.
bool Policy::make_room_ahead(const Invocation& invocation, const DomainBytes& need) {
  SessionState& session = *invocation.session;
  const arenas::BudgetLimits limits = budget_.limits();
  const Domain domain = short_of(need);
  const uint64_t global = domain == Domain::prepared ? limits.global_bytes : kUnlimited;
  const uint64_t few = std::min(limits.domain_bytes[domain], global) / kFewPart;
  if (session.ahead_bytes[domain] + need[domain] > few) return false;
  if (session.options.evict_order != EvictOrder::next_use || session.kept > 0 || !speculative_tokens()) return false;
  const uint64_t beyond = invocation.step_offset + uint64_t(window_end(invocation));
  while (residency_full(need)) {
    if (leaving_suffices(need) || !eviction_helps(need)) return false;
    if (session.index_stale) refresh_index(session);
    const EvictionIndex& index = evictable_of(session, short_of(need));
    if (index.empty() || index.top_key() < beyond) return false;
    ++counters_.replaced;
    evict(session, index.top(), kAnybody);
  }
  return true;
}

// A segment that needs it is about to be created, or it is gone.
void Policy::reached(SessionState& session, plan::ObjectId id) {
  if (!std::exchange(session.objects[size_t(id)].ahead, false)) return;
  session.ahead_bytes = without(session.ahead_bytes, session.resident_of(id));
}

// After the invocation's next segment has become the first of its chain.
void Policy::see_wait(const Invocation& invocation) {
  const std::vector<schedule::PublishToken>& named = invocation.live.front().named;
  const bool waits = std::any_of(named.begin(), named.end(), [&](schedule::PublishToken token) {
    return publishes_[size_t(token)].closed && publishes_[size_t(token)].session;  // rows are no object's
  });
  if (waits) invocation.session->window.waited();
}

}  // namespace ompipe::session
