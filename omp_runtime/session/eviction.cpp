// Eviction: room for a gang is made from unpinned objects, the one whose next use is farthest first.
#include <algorithm>

#include "policy.h"

namespace ompipe::session {

using arenas::Domain;
using arenas::DomainBytes;
using store::Residency;

namespace {

// Keys of objects without a live run lie above all others: they go first, the least recently used of them foremost.
constexpr uint64_t kNoLiveRun = uint64_t(1) << 62;

}  // namespace

// The gang's bytes, from what is free or what idle hot slots hold.
std::optional<arenas::Reservation> Policy::reserve_with_trim(const DomainBytes& gang) {
  for (;;) {
    std::optional<arenas::Reservation> reservation = budget_.reserve(gang, arenas::Urgency::critical);
    if (reservation || !trim_helps(gang) || !trim_idle()) return reservation;
  }
}

// What would be live if the gang were granted.
DomainBytes Policy::live_with(const DomainBytes& gang) const { return sum_of(budget_.usage().live_bytes(), gang); }

// Whether it is what frames take that stands in the way, and nothing that no frame gives.
bool Policy::trim_helps(const DomainBytes& gang) const {
  const DomainBytes asked = live_with(gang);
  const arenas::BudgetLimits limits = budget_.limits();
  bool frames = false;
  for (Domain domain : arenas::kDomains) {
    if (asked[domain] <= limits.domain_bytes[domain] || (domain == Domain::device && gang[domain] == 0)) continue;
    if (domain != Domain::execution && domain != Domain::io) return false;
    frames = true;
  }
  return frames || arenas::global_sum(asked) > limits.global_bytes;
}

// The gang's bytes, if evicting can make room for them at once. Victims whose pages are given back elsewhere are not
// followed by more than the gang needs: it is asked for again when they are gone.
std::optional<arenas::Reservation> Policy::reserve_with_eviction(const DomainBytes& gang, uint64_t age) {
  for (;;) {
    std::optional<arenas::Reservation> reservation = reserve_with_trim(gang);
    if (reservation) return reservation;
    if (eviction_helps(gang) && !leaving_suffices(gang) && evict_one(short_of(gang), age)) continue;
    hot_blocked_ = hot_blocked_ || hot_.slots.filled() > 0;
    return {};
  }
}

// Whether it is resident bytes that stand in the way: no eviction frees staging, execution or outputs.
bool Policy::eviction_helps(const DomainBytes& gang) const {
  const DomainBytes asked = live_with(gang);
  const arenas::BudgetLimits limits = budget_.limits();
  for (Domain domain : {Domain::preparation, Domain::mapped, Domain::execution, Domain::io}) {
    if (asked[domain] > limits.domain_bytes[domain]) return false;
  }
  return true;
}

bool Policy::leaving_suffices(const DomainBytes& gang) const {
  return leaving_bytes_ > 0 && fits_without(gang, {{Domain::prepared, leaving_bytes_}});
}

// Whether the gang would fit if that many of the prepared bytes were gone. As in Budget::reserve, live bytes decide:
// what arenas keep beyond them is trimmed for whoever fits.
bool Policy::fits_without(const DomainBytes& gang, const DomainBytes& leaving) const {
  const arenas::BudgetLimits limits = budget_.limits();
  DomainBytes left = budget_.usage().live_bytes();
  for (Domain domain : {Domain::prepared, Domain::device})
    left[domain] -= std::min(leaving[domain], left[domain]);  // some may have gone and not been reported
  left = sum_of(left, gang);
  return left[Domain::prepared] <= limits.domain_bytes[Domain::prepared] &&
         arenas::global_sum(left) <= limits.global_bytes && left[Domain::device] <= limits.domain_bytes[Domain::device];
}

// Whether there would be room if all went that may go: nothing is evicted in vain for a preparation.
bool Policy::eviction_suffices(const DomainBytes& gang) const { return fits_without(gang, evictable_bytes()); }

// Resident bytes of all that may go, and of what is on its way out.
DomainBytes Policy::evictable_bytes() const {
  DomainBytes evictable{{Domain::prepared, leaving_bytes_}};
  for (const SessionState* session : sessions_) {
    for (plan::ObjectId id = 0; session->kept == 0 && id < plan::ObjectId(session->objects.size()); ++id) {
      if (session->store->state(id) == Residency::resident && session->objects[size_t(id)].pins == 0)
        evictable = sum_of(evictable, session->resident_of(id));
    }
  }
  return evictable;
}

EvictionIndex& Policy::evictable_of(SessionState& session, Domain domain) {
  return domain == Domain::device ? session.evictable_there : session.evictable;
}

// Of those that may lose something, the session whose object is used again last; null if there is none.
SessionState* Policy::farthest_session(Domain domain) {
  SessionState* from = nullptr;
  for (SessionState* session : sessions_) {
    if (session->kept > 0 || session->passed_over) continue;
    see_hot_runs(*session);
    if (session->index_stale) refresh_index(*session);
    const EvictionIndex& index = evictable_of(*session, domain);
    if (index.empty()) continue;
    if (!from || index.top_key() > evictable_of(*from, domain).top_key()) from = session;
  }
  return from;
}

// The memory whose objects have to make way: the device's if it is short, else the CPU's.
Domain Policy::short_of(const DomainBytes& gang) const {
  const uint64_t there = live_with(gang)[Domain::device];
  return gang[Domain::device] > 0 && there > budget_.limits().domain_bytes[Domain::device] ? Domain::device
                                                                                           : Domain::prepared;
}

// Returns the resident bytes that go; 0 when nothing may. A session that hot runs rely on is passed over while another
// one has something. If none has, the farthest stays closed for whoever insists, so that its runs come to an end and
// new ones queue by age.
uint64_t Policy::evict_one(Domain domain, uint64_t age, bool insists) {
  for (SessionState* session : sessions_) session->passed_over = false;
  SessionState* pinned = nullptr;
  while (SessionState* const from = farthest_session(domain)) {
    if (close_gate(*from)) return evict(*from, evictable_of(*from, domain).top(), age);
    arm(*from);
    from->passed_over = true;
    if (!pinned) pinned = from;
  }
  if (!pinned || !insists) return 0;
  pinned->gate_held = true;
  return close_gate(*pinned) ? evict(*pinned, evictable_of(*pinned, domain).top(), age) : 0;
}

// The session's gate is closed, and nobody has claimed it.
uint64_t Policy::evict(SessionState& session, plan::ObjectId id, uint64_t age) {
  OMPIPE_CHECK(!session.gate.is_open(), "an eviction from a session that runs hot");
  session.evictable_of(id).remove(id);
  reached(session, id);
  --session.resident;
  ++session.evictions;
  session.objects[size_t(id)].evicted_for = age;
  session.objects[size_t(id)].evicted_ns = now_ns();
  leaves(session, id);
  ++counters_.evictions;
  if (effects_.discard(session, id, session.store->evict(id))) discarded(session, id);
  const DomainBytes bytes = session.resident_of(id);
  return bytes[Domain::prepared] + bytes[Domain::device];
}

// Its pages are being given back from now on.
void Policy::leaves(SessionState& session, plan::ObjectId id) {
  ++session.leaving;
  leaving_bytes_ += session.need_of(id)[Domain::prepared];
  leaving_.push_back({&session, id});
}

// The event is told now: until then it may come back.
void Policy::discarded(SessionState& session, plan::ObjectId id) {
  const bool evicted = session.store->state(id) == Residency::evicting;
  session.store->gone(id, session.objects[size_t(id)].error ? Residency::failed : Residency::absent);
  has_left(session, id);
  if (!evicted) return;
  TaskEvent event = object_event(TaskKind::evict, session, id);
  event.bytes = session.plan->objects[size_t(id)].bytes;
  event.queued_ns = event.start_ns = session.objects[size_t(id)].evicted_ns;
  event.end_ns = now_ns();
  effects_.observer().on_task(event);
}

void Policy::has_left(SessionState& session, plan::ObjectId id) {
  --session.leaving;
  leaving_bytes_ -= session.need_of(id)[Domain::prepared];
  std::erase(leaving_, ObjectRef{&session, id});
  for (Release& release : releases_) std::erase(release.leaving, ObjectRef{&session, id});
}

// An evicted object is asked for before its pages have begun to go: it stays, unless it made room for an elder. Else
// whoever asks waits until it is gone.
bool Policy::keep(SessionState& session, plan::ObjectId id, uint64_t age) {
  if (session.store->state(id) != Residency::evicting || age > session.objects[size_t(id)].evicted_for) return false;
  arenas::Allocation allocation = effects_.keep(session, id);
  if (!allocation) return false;
  session.store->keep(id, std::move(allocation));
  has_left(session, id);
  ++session.resident;
  if (!session.index_stale) session.evictable.set(id, eviction_key(session, id));
  --counters_.evictions;
  ++counters_.kept;
  arm(session);
  return true;
}

// The predicted time of the next use, in segments on the session's clock: the nearest over its live invocations, each
// of which is expected to come round again. The plan knows it; LRU alone would lose everything on a cyclic walk.
uint64_t Policy::eviction_key(const SessionState& session, plan::ObjectId id) const {
  const ObjectState& object = session.objects[size_t(id)];
  if (session.options.evict_order == EvictOrder::lru || (session.live_invocations == 0 && !session.hot_live))
    return kNoLiveRun + (kNoLiveRun - object.last_use);
  const uint64_t segments = session.plan->segments.size();
  // A session that runs hot comes round as a whole.
  uint64_t nearest = session.hot_live
                         ? session.clock + segments + uint64_t(session.plan->objects[size_t(id)].uses.front())
                         : kNoLiveRun;
  for (const std::unique_ptr<Invocation>& invocation : live_) {
    if (invocation->session != &session) continue;
    nearest = std::min(nearest, invocation->step_offset + invocation->counter.step_of_next_use(*session.plan, id));
  }
  return nearest;
}

// After an invocation has come or gone every key may differ; recomputed only if something has to be evicted.
void Policy::refresh_index(SessionState& session) {
  session.index_stale = false;
  for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) {
    if (session.store->state(id) == Residency::resident && session.objects[size_t(id)].pins == 0) {
      session.evictable_of(id).set(id, eviction_key(session, id));
    } else {
      session.evictable_of(id).remove(id);
    }
  }
}

// Notes a use, and the object's place among those that may go.
void Policy::used(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  object.last_use = session.clock;
  if (session.index_stale) return;
  if (session.store->state(id) == Residency::resident && object.pins == 0) {
    session.evictable_of(id).set(id, eviction_key(session, id));
  } else {
    session.evictable_of(id).remove(id);
  }
}

// A closing session ends when nothing of it is in flight: then every byte goes back.
void Policy::close_idle_sessions() {
  for (size_t i = 0; i < sessions_.size();) {
    SessionState& session = *sessions_[i];
    const bool busy =
        session.live_invocations + session.pending + session.preparations + session.in_flight + session.leaving > 0;
    if (!session.closing || busy || hot_busy(&session)) {
      ++i;
      continue;
    }
    OMPIPE_CHECK(session.gate.close(), "a session is closed while it runs hot");
    empty_slots(session);
    for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) {
      if (session.store->state(id) == Residency::resident) {
        session.store->evict(id).reset();
        session.store->gone(id);
      }
    }
    Completion* const done = session.closing;
    sessions_.erase(sessions_.begin() + ptrdiff_t(i));
    done->complete(ok_status());
  }
}

}  // namespace ompipe::session
