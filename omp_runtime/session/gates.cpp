// Gates: which arrived chunk may be packed now, and what its report leads to: the next chunk, publication, or an end.
#include <algorithm>
#include <utility>

#include "policy.h"

namespace ompipe::session {

using schedule::TaskClass;
using store::Residency;

// Critical gates first, then in plan order; a speculative one only while no critical task could start; at most T + 1
// opened prepacks unfinished. No-ops stand outside that bound, so that the graph always drains.
void Policy::open_gates() {
  auto before = [&](schedule::LoadToken a, schedule::LoadToken b) {
    const Load &x = loads_[size_t(a)], &y = loads_[size_t(b)];
    if (is_doomed(x) != is_doomed(y)) return is_doomed(x);
    if (priority_of(x) != priority_of(y)) return priority_of(x) < priority_of(y);
    return plan_position(*x.session, x.object) < plan_position(*y.session, y.object);
  };
  while (!ready_.empty()) {
    const auto best = std::min_element(ready_.begin(), ready_.end(), before);
    Load& load = loads_[size_t(*best)];
    load.noop = is_doomed(load);
    const bool critical = load.noop || priority_of(load) == Priority::critical;
    if (!load.noop && open_ > options_.threads) return;
    if (!critical && scheduler_->critical_waiting()) return;
    const schedule::LoadToken token = *best;
    ready_.erase(best);
    if (load.noop) {
      load.block.reset();
      load.mapped = {};
      load.mapped_reservation.release();
    } else {
      ++open_;
      if (!load.rows && load.session->store->state(load.object) == Residency::loading)
        load.session->store->first_chunk(load.object);
      if (load.rider != plan::kNone && load.session->store->state(load.rider) == Residency::loading)
        load.session->store->first_chunk(load.rider);
    }
    load.opened = true;
    load.effective = priority_of(load);
    load.opened_ns = now_ns();
    scheduler_->open_load(token, critical ? TaskClass::critical : TaskClass::speculative);
  }
}

void Policy::make_ready(schedule::LoadToken token) {
  Load& load = loads_[size_t(token)];
  if (!load.ready) ready_.push_back(token);
  load.ready = true;
}

bool Policy::is_doomed(const Load& load) const {
  return load.rows ? load.rows->error || !load.rows->invocation : load.session->objects[size_t(load.object)].doomed;
}

Priority Policy::priority_of(const Load& load) const {
  return load.rows ? Priority::critical : load.session->objects[size_t(load.object)].priority;
}

void Policy::prepacked(schedule::LoadToken token) {
  const Load& load = loads_[size_t(token)];
  if (load.rows) return slice_packed(token);
  if (!load.noop) {
    --open_;
    note_prepack(load);
  }
  if (!upload_chunk(token)) chunk_done(token);
}

// The chunk's bytes are where they belong, or nobody wants them any more.
void Policy::chunk_done(schedule::LoadToken token) {
  Load& load = loads_[size_t(token)];
  SessionState& session = *load.session;
  const plan::ObjectId id = load.object;
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  ObjectState& object = session.objects[size_t(id)];
  --object.live_loads;
  count_in_flight(-int64_t(load.bytes));
  load.mapped = {};
  if (load.error) object_failed(session, id, *load.error);
  if (!object.doomed) ++object.packed;
  if (!object.doomed && !object.abandoned && object.next_chunk < spec.chunks.size()) {
    submit_chunk(session, id, token, std::move(load.block), std::move(load.mapped_reservation));
  } else if (object.dormant.left_bytes(arenas::Domain::preparation) > 0 && object.spare < 0) {
    load.uploading = true;
    object.spare = token;
  } else {
    free_load(token);
  }
  if (object.packed == spec.chunks.size()) {
    publish(session, id);
  } else {
    settle(session, id);
  }
}

void Policy::note_prepack(const Load& load) {
  Observer& observer = effects_.observer();
  observer.on_milestone(Milestone::first_prepack, load.times.start_ns);
  TaskEvent event = object_event(TaskKind::prepack, *load.session, load.object);
  event.resource = ResourceClass::cpu;
  event.original = load.original;
  event.effective = load.effective;
  event.source = ByteSource::portable;
  event.lane = load.times.lane;
  event.chunk = int32_t(load.chunk);
  event.bytes = load.bytes;
  event.queued_ns = load.opened_ns;
  event.start_ns = load.times.start_ns;
  event.end_ns = load.times.end_ns;
  event.cpu_ns = load.times.cpu_ns;
  observer.on_task(event);
}

void Policy::free_load(schedule::LoadToken token) {
  loads_[size_t(token)] = Load{};
  free_loads_.push_back(token);
}

// What was kept for the object's dormant recipe.
void Policy::free_dormant(ObjectState& object) {
  object.dormant.release();
  if (object.spare >= 0) free_load(std::exchange(object.spare, -1));
}

// Packing may have begun before the digest was known to be right; no consumer runs before it is.
void Policy::publish(SessionState& session, plan::ObjectId id) {
  const uint64_t start_ns = now_ns();
  if (session.options.verify != Verify::never) {
    const Status status = session.store->hashes(id).verify(*session.plan, session.plan->objects[size_t(id)]);
    if (!status.ok()) {
      object_failed(session, id, status.error());
      settle(session, id);
      return;
    }
  }
  finish_rider(session, id);
  if (!finish_on_device(session, id)) make_visible(session, id, start_ns);
}

// What was made of the same reads for the device goes on by itself.
void Policy::finish_rider(SessionState& session, plan::ObjectId leader) {
  ObjectState& object = session.objects[size_t(leader)];
  const plan::ObjectId id = std::exchange(object.rider, plan::kNone);
  if (id == plan::kNone) return;
  ObjectState& rider = session.objects[size_t(id)];
  rider.leader = plan::kNone;
  if (rider.doomed) return settle(session, id);
  if (rider.recipe == plan::Recipe::upload_pack) rider.aux = std::move(object.aux);
  finish_on_device(session, id);
}

void Policy::make_visible(SessionState& session, plan::ObjectId id, uint64_t start_ns) {
  ObjectState& object = session.objects[size_t(id)];
  object.aux.reset();
  object.upload.reset();
  object.sources.reset();
  free_dormant(object);
  object.abandoned = false;
  session.store->publish(id);
  forget_in_flight(session, id);
  ++session.resident;
  used(session, id);
  arm(session);
  open_publish(std::exchange(object.token, -1));
  Observer& observer = effects_.observer();
  observer.on_milestone(Milestone::first_publish, start_ns);
  TaskEvent event = object_event(TaskKind::publish, session, id);
  event.original = object.original;
  event.effective = object.priority;
  event.source = ByteSource::portable;
  event.bytes = session.plan->objects[size_t(id)].bytes;
  event.queued_ns = event.start_ns = start_ns;
  event.end_ns = now_ns();
  observer.on_task(event);
  if (session.resident == session.objects.size() && !session.fully_prepared) {
    session.fully_prepared = true;
    observer.on_milestone(Milestone::fully_prepared, now_ns());
  }
  object_settled(session, id, std::nullopt);
}

void Policy::forget_in_flight(SessionState& session, plan::ObjectId object) {
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& item) {
    return item.session == &session && item.object == object;
  });
  OMPIPE_CHECK(found != in_flight_.end());
  in_flight_.erase(found);
  --session.in_flight;
}

schedule::PublishToken Policy::take_publish(SessionState* session, plan::ObjectId object) {
  const schedule::PublishToken token = take(free_publishes_);
  publishes_[size_t(token)] = {.session = session, .object = object, .used = true, .closed = true};
  scheduler_->create_publish(token);
  return token;
}

void Policy::open_publish(schedule::PublishToken token) {
  scheduler_->publish(token);
  publishes_[size_t(token)].closed = false;
  release_publish(token);
}

// The token goes back when its gate is open and the last segment that names it has reported.
void Policy::release_publish(schedule::PublishToken token) {
  PublishGate& gate = publishes_[size_t(token)];
  if (!gate.used || gate.closed || gate.named > 0) return;
  gate = {};
  free_publishes_.push_back(token);
}

}  // namespace ompipe::session
