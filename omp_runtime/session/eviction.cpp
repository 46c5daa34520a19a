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

// The gang's bytes, if evicting can make room for them at once. Victims whose pages are given back elsewhere are not
// followed by more than the gang needs: it is asked for again when they are gone.
std::optional<arenas::Reservation> Policy::reserve_with_eviction(const DomainBytes& gang) {
  for (;;) {
    std::optional<arenas::Reservation> reservation = budget_.reserve(gang, arenas::Urgency::critical);
    if (reservation || !eviction_helps(gang) || leaving_suffices(gang) || !evict_one()) return reservation;
  }
}

// Whether it is resident bytes that stand in the way: no eviction frees staging, execution or outputs.
bool Policy::eviction_helps(const DomainBytes& gang) const {
  const arenas::BudgetUsage usage = budget_.usage();
  const arenas::BudgetLimits limits = budget_.limits();
  for (Domain domain : {Domain::preparation, Domain::mapped, Domain::execution, Domain::io}) {
    if (usage[domain].live_bytes + gang[domain] > limits.domain_bytes[domain]) return false;
  }
  return true;
}

bool Policy::leaving_suffices(const DomainBytes& gang) const {
  return leaving_bytes_ > 0 && fits_without(gang, leaving_bytes_);
}

// Whether the gang would fit if that many of the prepared bytes were gone. As in Budget::reserve, live bytes decide:
// what arenas keep beyond them is trimmed for whoever fits.
bool Policy::fits_without(const DomainBytes& gang, uint64_t leaving) const {
  const arenas::BudgetUsage usage = budget_.usage();
  const arenas::BudgetLimits limits = budget_.limits();
  const uint64_t prepared = usage[Domain::prepared].live_bytes + gang[Domain::prepared];
  uint64_t all = 0;
  for (Domain domain : {Domain::preparation, Domain::prepared, Domain::execution, Domain::io})
    all += usage[domain].live_bytes + gang[domain];
  return prepared - leaving <= limits.domain_bytes[Domain::prepared] && all - leaving <= limits.global_bytes;
}

// Whether there would be room if all went that may go: nothing is evicted in vain for a preparation.
bool Policy::eviction_suffices(const DomainBytes& gang) const {
  uint64_t evictable = leaving_bytes_;
  for (const SessionState* session : sessions_) {
    for (plan::ObjectId id = 0; session->kept == 0 && id < plan::ObjectId(session->objects.size()); ++id) {
      if (session->store->state(id) == Residency::resident && session->objects[size_t(id)].pins == 0)
        evictable += session->need_of(id)[Domain::prepared];
    }
  }
  return fits_without(gang, evictable);
}

// False when nothing may go.
bool Policy::evict_one() {
  SessionState* from = nullptr;
  for (SessionState* session : sessions_) {
    if (session->kept > 0) continue;
    if (session->index_stale) refresh_index(*session);
    if (session->evictable.empty()) continue;
    if (!from || session->evictable.top_key() > from->evictable.top_key()) from = session;
  }
  if (from) evict(*from, from->evictable.top());
  return from != nullptr;
}

void Policy::evict(SessionState& session, plan::ObjectId id) {
  const uint64_t start_ns = now_ns();
  session.evictable.remove(id);
  --session.resident;
  ++session.evictions;
  ++session.leaving;
  leaving_bytes_ += session.need_of(id)[Domain::prepared];
  ++counters_.evictions;
  if (effects_.discard(session, id, session.store->evict(id))) discarded(session, id);
  TaskEvent event = object_event(TaskKind::evict, session, id);
  event.bytes = session.plan->objects[size_t(id)].bytes;
  event.queued_ns = event.start_ns = start_ns;
  event.end_ns = now_ns();
  effects_.observer().on_task(event);
}

// The predicted time of the next use, in segments on the session's clock: the nearest over its live invocations, each
// of which is expected to come round again. The plan knows it; LRU alone would lose everything on a cyclic walk.
uint64_t Policy::eviction_key(const SessionState& session, plan::ObjectId id) const {
  const ObjectState& object = session.objects[size_t(id)];
  if (session.options.evict_order == EvictOrder::lru || session.live_invocations == 0)
    return kNoLiveRun + (kNoLiveRun - object.last_use);
  const uint64_t segments = session.plan->segments.size();
  uint64_t nearest = kNoLiveRun;
  for (const std::unique_ptr<Invocation>& invocation : live_) {
    if (invocation->session != &session) continue;
    const plan::SegmentId next = session.plan->next_use(id, invocation->created);
    const uint64_t step =
        next != plan::kNone ? uint64_t(next) : segments + uint64_t(session.plan->objects[size_t(id)].uses.front());
    nearest = std::min(nearest, invocation->step_offset + step);
  }
  return nearest;
}

// After an invocation has come or gone every key may differ; recomputed only if something has to be evicted.
void Policy::refresh_index(SessionState& session) {
  session.index_stale = false;
  for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) {
    if (session.store->state(id) == Residency::resident && session.objects[size_t(id)].pins == 0) {
      session.evictable.set(id, eviction_key(session, id));
    } else {
      session.evictable.remove(id);
    }
  }
}

// Notes a use, and the object's place among those that may go.
void Policy::used(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  object.last_use = session.clock;
  if (session.index_stale) return;
  if (session.store->state(id) == Residency::resident && object.pins == 0) {
    session.evictable.set(id, eviction_key(session, id));
  } else {
    session.evictable.remove(id);
  }
}

// A closing session ends when nothing of it is in flight: then every byte goes back.
void Policy::close_idle_sessions() {
  for (size_t i = 0; i < sessions_.size();) {
    SessionState& session = *sessions_[i];
    const bool busy =
        session.live_invocations + session.pending + session.preparations + session.in_flight + session.leaving > 0;
    if (!session.closing || busy) {
      ++i;
      continue;
    }
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
