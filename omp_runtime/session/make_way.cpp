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
    if (object.leader != plan::kNone) continue;  // it comes and goes with that
    const auto is_needed = [&](plan::ObjectId id) {
      return id != plan::kNone && (item.session->objects[size_t(id)].pins > 0 || is_refused(*item.session, id));
    };
    if (is_needed(item.object) || is_needed(object.rider)) continue;
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
  const DomainBytes evictable = evictable_bytes();
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
  bytes = sum_of(bytes, other.bytes);
  loads += other.loads;
  publishes += other.publishes;
  return *this;
}

// Whether the refused gang's own segment needs it.
bool Policy::is_refused(const SessionState& session, plan::ObjectId id) const {
  if (&session != refused_->session) return false;
  const std::vector<plan::ObjectId>& needs = session.plan->segments[size_t(refused_->segment)].requirements;
  return std::find(needs.begin(), needs.end(), id) != needs.end();
}

// What a load holds, with what rides on its reads.
Policy::Room Policy::room_of(const InFlight& item) const {
  const SessionState& session = *item.session;
  const plan::PreparedObject& spec = session.plan->objects[size_t(item.object)];
  Room room;
  room.publishes = 1;
  const ObjectState& object = session.objects[size_t(item.object)];
  room.bytes = session.need_beside_reads(item.object);
  if (object.recipe != spec.recipe) room.bytes[Domain::device] = session.resident_of(item.object)[Domain::device];
  if (object.rider != plan::kNone) {
    ++room.publishes;
    room.bytes = sum_of(room.bytes, without(session.need_beside_reads(object.rider), session.dormant_of(object.rider)));
  }
  if (object.aux) room.bytes[Domain::preparation] += BlockArena::rounded_bytes(spec.aux_staging_bytes);
  for (const Load& load : loads_) {
    if (load.session != &session || load.object != item.object || load.rows) continue;
    ++room.loads;
    if (load.block) room.bytes[Domain::preparation] += BlockArena::rounded_bytes(spec.chunk_staging_bytes);
    room.bytes[Domain::mapped] += load.mapped_reservation.left_bytes(Domain::mapped);
  }
  return room;
}

// Whether the refused gang could have its bytes and tokens if that came back, and what may be evicted went.
bool Policy::suffices(const Room& coming, const DomainBytes& evictable) const {
  const arenas::BudgetLimits limits = budget_.limits();
  const SegmentNeed& need = refused_->need;
  const DomainBytes asked = live_with(need.gang);
  Room there = coming;
  there.bytes = sum_of(there.bytes, evictable);
  const auto too_much = [](uint64_t bytes, uint64_t limit, uint64_t back) {
    return bytes > limit && bytes - limit > back;
  };
  for (const Domain domain : arenas::kDomains) {
    if (too_much(asked[domain], limits.domain_bytes[domain], there.bytes[domain])) return false;
  }
  if (too_much(arenas::global_sum(asked), limits.global_bytes, arenas::global_sum(there.bytes))) return false;
  return need.missing <= free_loads_.size() + there.loads &&
         need.missing + need.gates <= free_publishes_.size() + there.publishes;
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
  const plan::ObjectId rider = item.session->objects[size_t(item.object)].rider;
  for (const plan::ObjectId id : {item.object, rider}) {
    if (id == plan::kNone) continue;
    abandon(*item.session, id);
    for (const std::unique_ptr<Preparation>& preparation : preparations_) {
      if (preparation->session == item.session && preparation->started && preparation->wanted[size_t(id)])
        restart(*preparation);
    }
  }
}

}  // namespace ompipe::session
