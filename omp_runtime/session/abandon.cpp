// Loads that end before they are published: failed ones, and those that nobody wants any more.
#include <algorithm>
#include <utility>

#include "policy.h"

namespace ompipe::session {

using store::Residency;

// Keeps the first error.
void Policy::object_failed(SessionState& session, plan::ObjectId id, const Error& error, const char* task) {
  ObjectState& object = session.objects[size_t(id)];
  if (!object.error) {
    object.error = error;
    object.failed_in = task;
  }
  doom(session, id);
  withdraw_reads(session, id);
}

// What rides on its reads is lost with it.
void Policy::doom(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  object.doomed = true;
  if (object.rider == plan::kNone) return;
  ObjectState& rider = session.objects[size_t(object.rider)];
  rider.doomed = true;
  if (!object.error || rider.error) return;
  rider.error = object.error;
  rider.failed_in = object.failed_in;
}

// Takes back what is queued of the object's reads; a gate with nothing left to wait for opens as a no-op. True if the
// load has lost anything by that.
bool Policy::withdraw_reads(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  const int aux_before = object.aux_pending;
  for (size_t i = 0; object.aux_pending > 0 && i < spec.aux_reads.size(); ++i)
    object.aux_pending -= effects_.withdraw_read(read_id(true, object.token, object.first_read + uint32_t(i)));
  bool lost = object.aux_pending < aux_before;
  for (size_t i = 0; i < loads_.size(); ++i) {
    const Load& load = loads_[i];
    if (load.session != &session || load.object != id || load.rows || load.opened) continue;
    lost |= withdraw_load(schedule::LoadToken(i), spec.chunks[load.chunk].reads.size());
  }
  return lost;
}

// The same for one load, of so many reads.
bool Policy::withdraw_load(schedule::LoadToken token, size_t reads) {
  Load& load = loads_[size_t(token)];
  const int before = load.reads_pending;
  for (size_t i = 0; load.reads_pending > 0 && i < reads; ++i)
    load.reads_pending -= effects_.withdraw_read(read_id(false, token, load.first_read + uint32_t(i)));
  if (load.reads_pending == 0) make_ready(token);
  return load.reads_pending == 0 || load.reads_pending < before;
}

// A generation that was given up ends once every read and task of it is terminal.
void Policy::settle(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  if (!object.doomed && !object.abandoned) return;
  if (object.live_loads > 0 || object.aux_pending > 0 || object.transfers > 0 || object.leader != plan::kNone) return;
  if (object.falls_back && !object.abandoned && !object.error && is_wanted(session, id)) return fall_back(session, id);
  doom(session, id);
  object.aux.reset();
  object.upload.reset();
  object.sources.reset();
  free_dormant(object);
  reached(session, id);
  forget_in_flight(session, id);
  if (object.error) fail_waiting(session, id);
  open_publish(std::exchange(object.token, -1));
  leaves(session, id);
  if (object.error) object_settled(session, id, object.error);
  if (effects_.discard(session, id, session.store->give_up(id))) discarded(session, id);
  if (const plan::ObjectId rider = std::exchange(object.rider, plan::kNone); rider != plan::kNone) {
    session.objects[size_t(rider)].leader = plan::kNone;
    settle(session, rider);
  }
}

// Of an object that has failed, for diagnostics.
std::string Policy::failed_task(const SessionState& session, plan::ObjectId id) {
  return session.objects[size_t(id)].failed_in + session.plan->objects[size_t(id)].name;
}

// Exactly those whose segments name its gate.
void Policy::fail_waiting(SessionState& session, plan::ObjectId id) {
  const ObjectState& object = session.objects[size_t(id)];
  std::vector<Invocation*> failed;
  for (const std::unique_ptr<Invocation>& invocation : live_) {
    const bool waits =
        std::any_of(invocation->live.begin(), invocation->live.end(), [&](const Invocation::LiveSegment& segment) {
          return std::find(segment.named.begin(), segment.named.end(), object.token) != segment.named.end();
        });
    if (waits) failed.push_back(invocation.get());
  }
  for (Invocation* const invocation : failed) {
    fail(*invocation, *object.error, failed_task(session, id));
    if (invocation->live.empty()) finish(*invocation);
  }
}

// Whether its bytes are on their way out: it can't be asked for before they are gone.
bool Policy::is_leaving(const SessionState& session, plan::ObjectId id) const {
  const Residency state = session.store->state(id);
  const bool loads = state == Residency::loading || state == Residency::preparing;
  return state == Residency::evicting || (loads && session.objects[size_t(id)].doomed);
}

bool Policy::is_wanted(const SessionState& session, plan::ObjectId id) const {
  const ObjectState& object = session.objects[size_t(id)];
  if (object.pins > 0 || (object.rider != plan::kNone && is_wanted(session, object.rider))) return true;
  const auto prepares = [&](const std::unique_ptr<Preparation>& preparation) {
    return preparation->session == &session && !preparation->error && !preparation->settled[size_t(id)];
  };
  const auto uses = [&](const std::unique_ptr<Invocation>& invocation) {
    return invocation->session == &session && !invocation->error &&
           invocation->counter.distance(*session.plan, id) >= 0;
  };
  return std::any_of(preparations_.begin(), preparations_.end(), prepares) ||
         std::any_of(live_.begin(), live_.end(), uses);
}

// Reads in flight go on; until one of them arrives the load may be revived.
void Policy::abandon(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  object.abandoned = true;
  ++counters_.abandoned;
  if (withdraw_reads(session, id)) doom(session, id);
}

// After an invocation or a preparation of the session has failed or was cancelled. What one that succeeded has under
// way is left to go on: its session becomes warm for the next run.
void Policy::abandon_unwanted(SessionState& session) {
  for (const InFlight& item : in_flight_) {
    const ObjectState& object = item.session->objects[size_t(item.object)];
    if (item.session == &session && !object.abandoned && !object.doomed && !is_wanted(session, item.object))
      abandon(session, item.object);
  }
}

// Whoever needs an abandoned load takes it over; one that is doomed nobody gets here with.
void Policy::revive(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  object.abandoned = false;
  if (object.leader != plan::kNone) session.objects[size_t(object.leader)].abandoned = false;
}

}  // namespace ompipe::session
