// Speculative loads make way for a refused gang: nothing can evict what they hold.
#include <algorithm>

#include "policy.h"

namespace ompipe::session {

using arenas::BlockArena;
using arenas::Domain;
using arenas::DomainBytes;

// Those whose chunks have all arrived are packed next, and can be evicted then; any other is given up. As many as it
// takes, the ones that are needed last first; none if all together would not be enough.
void Policy::make_way() {
  if (!refused_) return;
  std::vector<InFlight> speculative;
  Room coming, all;
  for (const InFlight& item : in_flight_) {
    const ObjectState& object = item.session->objects[size_t(item.object)];
    if (object.pins > 0 || is_refused(item)) continue;
    const bool goes = object.abandoned || object.doomed || object.priority == Priority::critical;
    const Room room = room_of(item);
    all += room;
    if (goes) {
      coming += room;
    } else {
      speculative.push_back(item);
    }
  }
  if (speculative.empty()) return;
  const uint64_t evictable = evictable_bytes();
  if (!suffices(all, evictable)) return;
  std::sort(speculative.begin(), speculative.end(), [&](const InFlight& a, const InFlight& b) {
    const uint64_t at = plan_position(*a.session, a.object), other = plan_position(*b.session, b.object);
    return at != other ? at > other : a.session->instance > b.session->instance;
  });
  for (size_t i = 0; i < speculative.size() && !suffices(coming, evictable); ++i) {
    const InFlight& item = speculative[i];
    coming += room_of(item);
    if (has_arrived(item)) {
      raise(*item.session, item.object, Priority::critical);
    } else {
      give_up(item);
    }
  }
}

Policy::Room& Policy::Room::operator+=(const Room& other) {
  for (const Domain domain : arenas::kDomains) bytes[domain] += other.bytes[domain];
  loads += other.loads;
  publishes += other.publishes;
  return *this;
}

// Whether the refused gang's own segment needs it.
bool Policy::is_refused(const InFlight& item) const {
  const std::vector<plan::ObjectId>& needs = item.session->plan->segments[size_t(refused_->segment)].requirements;
  return item.session == refused_->session && std::find(needs.begin(), needs.end(), item.object) != needs.end();
}

// What a load holds.
Policy::Room Policy::room_of(const InFlight& item) const {
  const SessionState& session = *item.session;
  const plan::PreparedObject& spec = session.plan->objects[size_t(item.object)];
  Room room;
  room.publishes = 1;
  room.bytes[Domain::prepared] = session.need_of(item.object)[Domain::prepared];
  if (session.objects[size_t(item.object)].aux)
    room.bytes[Domain::preparation] += BlockArena::rounded_bytes(spec.aux_staging_bytes);
  for (const Load& load : loads_) {
    if (load.session != &session || load.object != item.object || load.rows) continue;
    ++room.loads;
    if (load.block) room.bytes[Domain::preparation] += BlockArena::rounded_bytes(spec.chunk_staging_bytes);
    room.bytes[Domain::mapped] += load.mapped_reservation.left_bytes(Domain::mapped);
  }
  return room;
}

// Whether the refused gang could have its bytes and tokens if that came back, and what may be evicted went.
bool Policy::suffices(const Room& coming, uint64_t evictable) const {
  const arenas::BudgetUsage usage = budget_.usage();
  const arenas::BudgetLimits limits = budget_.limits();
  const SegmentNeed& need = refused_->need;
  Room there = coming;
  there.bytes[Domain::prepared] += evictable;
  uint64_t all = 0, back = 0;
  for (const Domain domain : arenas::kDomains) {
    const uint64_t asked = usage[domain].live_bytes + need.gang[domain];
    if (asked > limits.domain_bytes[domain] && asked - limits.domain_bytes[domain] > there.bytes[domain]) return false;
    all += domain == Domain::mapped ? 0 : asked;
    back += domain == Domain::mapped ? 0 : there.bytes[domain];
  }
  if (all > limits.global_bytes && all - limits.global_bytes > back) return false;
  return need.missing <= free_loads_.size() + there.loads && need.missing <= free_publishes_.size() + there.publishes;
}

bool Policy::has_arrived(const InFlight& item) const {
  const ObjectState& object = item.session->objects[size_t(item.object)];
  const bool asked = object.next_chunk == item.session->plan->objects[size_t(item.object)].chunks.size();
  return asked && object.aux_pending == 0 && std::none_of(loads_.begin(), loads_.end(), [&](const Load& load) {
           return load.session == item.session && load.object == item.object && !load.rows && load.reads_pending > 0;
         });
}

// A preparation that wants it begins again, when its turn comes.
void Policy::give_up(const InFlight& item) {
  abandon(*item.session, item.object);
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->session == item.session && preparation->started && preparation->wanted[size_t(item.object)])
      restart(*preparation);
  }
}

}  // namespace ompipe::session
