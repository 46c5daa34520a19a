// Invocations: started in the order of age, cut into segments that are created one ahead of the running one, each with
// its gang.
#include <fmt/format.h>

#include <algorithm>

#include "hot_runs.h"
#include "policy.h"

namespace ompipe::session {

using arenas::BlockArena;
using arenas::Domain;
using arenas::DomainBytes;
using store::Residency;

DomainBytes memory_of(const InvocationWork& work) {
  uint64_t output_bytes = 0;
  for (uint64_t output : work.output_bytes()) output_bytes += output > 0 ? BlockArena::rounded_bytes(output) : 0;
  const uint64_t there = work.device_bytes() > 0 ? device::Arena::rounded_bytes(work.device_bytes()) : 0;
  return {{Domain::execution, BlockArena::rounded_bytes(work.execution_bytes())},
          {Domain::io, output_bytes},
          {Domain::device, there}};
}

namespace {

// Whether the last segment created may turn out to be unfinished.
bool may_go_on(const Invocation& invocation) {
  return !invocation.live.empty() && invocation.work->may_grow(invocation.live.back().segment);
}

}  // namespace

void Policy::submit(std::unique_ptr<Invocation> invocation) {
  if (const int left = std::exchange(invocation->left_slot, -1); left >= 0) hot_.slots.put_empty(left);
  if (invocation->age == 0) invocation->age = hot_.next_age();  // one that was to run hot keeps its own
  // Asked to end on its way from a hot slot to here, where neither knew it.
  if (invocation->completion->cancelled.load()) {
    const std::string& model = invocation->session->plan->model->metadata().path;
    return refuse(std::move(invocation), Error{ErrorKind::cancelled, "run", model, "cancelled"});
  }
  Status status = fits(budget_.limits(), *invocation->session, memory_of(*invocation->work));
  if (status.ok() && invocation->refuse_without_slot) status = find_slot(*invocation);
  if (!status.ok()) {
    refuse(std::move(invocation), status);
    return;
  }
  ++invocation->session->pending;
  const auto younger =
      std::find_if(pending_.begin(), pending_.end(), [&](const auto& other) { return other->age > invocation->age; });
  pending_.insert(younger, std::move(invocation));
}

// Whether a slot is left for the invocation when all that are pending have theirs. What runs hot needs none.
Status Policy::find_slot(const Invocation& invocation) const {
  const auto is_cold = [](const std::unique_ptr<Invocation>& other) { return !other->session->gate.is_open(); };
  const auto waiting = size_t(std::count_if(pending_.begin(), pending_.end(), is_cold));
  const size_t own = invocation.session->gate.is_open() ? 0 : 1;
  if (free_slots_.size() >= waiting + own) return ok_status();
  return Error{ErrorKind::busy, "run", invocation.session->plan->model->metadata().path,
               fmt::format("all {} invocation slots are taken (live runs: {}, pending before this one: {}), and it was "
                           "not to wait for one",
                           slots_.size(), live_.size(), waiting)};
}

// Ends an invocation that has never started. It is destroyed before its handle is terminal: it may hold the last but
// one reference to the runtime, whose destructor must run on the waiter's thread.
void Policy::refuse(std::unique_ptr<Invocation> invocation, Status status) {
  invocation->work->finish(false);
  const CompletionRef completion = invocation->completion;
  invocation.reset();
  completion->complete(std::move(status));
}

void Policy::start_invocations() {
  while (!pending_.empty()) {
    const Start started = start(*pending_.front());
    if (started == Start::pending) return;
    Invocation& invocation = *pending_.front();
    --invocation.session->pending;
    if (started != Start::hot) live_.push_back(std::move(pending_.front()));
    pending_.erase(pending_.begin());
    if (started == Start::failed) finish(invocation);
  }
}

// Reserves execution and output bytes together, and only if the largest gang of every session still fits beside all of
// them that are live: so a started chain can always finish. What has everything resident is published to run hot.
Policy::Start Policy::start(Invocation& invocation) {
  const int hot_slot = take_hot_slot(*invocation.session);
  if (hot_slot < 0 && free_slots_.empty()) return Start::pending;
  const DomainBytes memory = memory_of(*invocation.work);
  const Status room = room_for(memory);
  std::optional<arenas::Reservation> reservation;
  if (room.ok()) reservation = reserve_with_eviction(memory, invocation.age);
  if (!reservation) {
    if (hot_slot >= 0) hot_.slots.put_empty(hot_slot);
    // Live invocations will give bytes back; without any, only results in callers' hands stand in the way, or loads in
    // flight.
    if (room.ok() || !live_.empty() || hot_busy(nullptr)) return Start::pending;
    invocation.error = room.error();
    return Start::failed;
  }
  Result<arenas::Allocation> block = execution_.allocate(*reservation, invocation.work->execution_bytes());
  std::vector<arenas::Allocation> outputs;
  for (uint64_t bytes : invocation.work->output_bytes()) {
    outputs.emplace_back();
    if (bytes == 0) continue;
    Result<arenas::Allocation> output = io_.allocate(*reservation, bytes);
    OMPIPE_CHECK(output.ok(), "the system has no memory for bytes within the budget");
    outputs.back() = std::move(*output);
  }
  OMPIPE_CHECK(block.ok(), "the system has no memory for bytes within the budget");
  invocation.work->attach(std::move(*block), std::move(outputs));
  if (memory[Domain::device] > 0) {
    Result<device::Memory> there = device_->allocate(*reservation, invocation.work->device_bytes());
    OMPIPE_CHECK(there.ok(), "the device has no memory for bytes within the budget");
    invocation.work->attach_device(std::move(*there));
    device_block_bytes_ += memory[Domain::device];
  }
  if (hot_slot >= 0) {
    publish_hot(invocation, hot_slot);
    return Start::hot;
  }
  invocation.slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[size_t(invocation.slot)].invocation = &invocation;
  SessionState& session = *invocation.session;
  invocation.step_offset = session.clock;
  invocation.counter.start(*session.plan);
  invocation.evictions_seen = session.evictions;
  invocation.ready_since_ns = now_ns();
  ++session.live_invocations;
  session.index_stale = true;
  return Start::live;
}

// Oldest first. Nobody overtakes a refused elder, not even with a segment that misses nothing.
bool Policy::create_segments() {
  refused_.reset();
  for (const std::unique_ptr<Invocation>& invocation : live_) {
    const plan::PreparedExecutionPlan& plan = *invocation->session->plan;
    const ProgramCounter& counter = invocation->counter;
    while (!invocation->error && !counter.undecided() && !counter.ended(plan) &&
           invocation->live.size() < schedule::kSegmentsAhead && !may_go_on(*invocation)) {
      if (create_segment(*invocation) == Grant::refused) return false;
    }
  }
  return true;
}

// What the segment misses, as one gang; nothing while something of it is on its way out, which has to end first.
std::optional<Policy::SegmentNeed> Policy::need_of(Invocation& invocation, const plan::Segment& segment) {
  SessionState& session = *invocation.session;
  SegmentNeed need{.missing = 0, .gates = segment.on_device ? size_t(1) : size_t(0), .gang = {}};
  for (plan::ObjectId id : segment.requirements) {
    if (const RowFetch* fetch = rows_for(invocation, id)) {
      ++need.missing;
      need.gang[Domain::preparation] += fetch->staging_bytes();
      continue;
    }
    if (is_leaving(session, id) && !keep(session, id, invocation.age)) return std::nullopt;
    const Residency state = session.store->state(id);
    if (state != Residency::absent && state != Residency::failed) continue;
    ++need.missing;
    DomainBytes bytes = session.need_of(id);
    if (reserved_by(session, id)) bytes = without(bytes, session.resident_of(id));
    need.gang = sum_of(need.gang, bytes);
  }
  return need;
}

void Policy::pin(SessionState& session, const plan::Segment& segment) {
  for (plan::ObjectId id : segment.requirements) {
    ++session.objects[size_t(id)].pins;
    reached(session, id);
    session.evictable_of(id).remove(id);
  }
}

void Policy::unpin(SessionState& session, const plan::Segment& segment) {
  for (plan::ObjectId id : segment.requirements) {
    --session.objects[size_t(id)].pins;
    used(session, id);
  }
}

// All that the segment misses is reserved as one gang, all or none: bytes and tokens. Reserved one by one, two
// invocations could take each other's room for ever.
Policy::Grant Policy::create_segment(Invocation& invocation) {
  SessionState& session = *invocation.session;
  const plan::Segment& segment = session.plan->segments[size_t(invocation.counter.next())];
  const std::optional<SegmentNeed> need = need_of(invocation, segment);
  if (!need) return Grant::refused;
  refused_ = {&session, invocation.counter.next(), *need};
  if (need->missing > free_loads_.size() || need->missing + need->gates > free_publishes_.size()) return Grant::refused;
  pin(session, segment);
  arenas::Reservation reservation;
  if (need->missing > 0) {
    std::optional<arenas::Reservation> granted = reserve_with_eviction(need->gang, invocation.age);
    if (!granted) {
      unpin(session, segment);
      return Grant::refused;
    }
    reservation = std::move(*granted);
  }
  refused_.reset();
  const uint32_t task = invocation.counter.tasks();
  Invocation::LiveSegment live{invocation.counter.next(), {}, task, invocation.counter.trip(), -1};
  invocation.segments[task % schedule::kSegmentsAhead] = live.segment;
  for (plan::ObjectId id : segment.requirements) {
    if (RowFetch* fetch = rows_for(invocation, id)) {
      start_rows(invocation, *fetch, reservation.split({{Domain::preparation, fetch->staging_bytes()}}));
      name(live, fetch->token);
      continue;
    }
    const Residency state = session.store->state(id);
    if (state == Residency::absent || state == Residency::failed) {
      reservation.merge(take_reserved(session, id));
      admit(session, id, Priority::critical, reservation.split(session.need_of(id)));
    }
    if (session.store->state(id) == Residency::resident) continue;
    revive(session, id);
    raise(session, id, Priority::critical);
    name(live, session.objects[size_t(id)].token);
  }
  if (!invocation.live.empty() && invocation.live.back().gate >= 0) name(live, invocation.live.back().gate);
  if (segment.on_device) live.gate = take_publish(nullptr, -1);
  invocation.live.push_back(std::move(live));
  invocation.counter.created(*session.plan);
  if (invocation.live.size() == 1) see_wait(invocation);
  scheduler_->create_segment(invocation.slot, invocation.live.back().named);
  return Grant::granted;
}

void Policy::name(Invocation::LiveSegment& segment, schedule::PublishToken token) {
  ++publishes_[size_t(token)].named;
  segment.named.push_back(token);
}

void Policy::segment_done(schedule::SlotToken slot) {
  if (!slots_[size_t(slot)].invocation || slots_[size_t(slot)].invocation->live.empty()) return taken_back_done(slot);
  Invocation& invocation = *slots_[size_t(slot)].invocation;
  if (!run_on_device(invocation)) end_segment(invocation);
}

void Policy::end_segment(Invocation& invocation) {
  SessionState& session = *invocation.session;
  Invocation::LiveSegment reported = std::move(invocation.live.front());
  invocation.live.erase(invocation.live.begin());
  note_segment(invocation, reported);
  ++invocation.done;
  session.clock = std::max(session.clock, invocation.step_offset + uint64_t(invocation.done));
  if (goes_on(invocation, reported)) return;
  const plan::Segment& segment = session.plan->segments[size_t(reported.segment)];
  unpin(session, segment);
  for (RowFetch& fetch : invocation.rows) {
    if (fetch.segment == reported.segment && fetch.token >= 0) end_rows(fetch);
  }
  for (const schedule::PublishToken token : reported.named) {
    --publishes_[size_t(token)].named;
    release_publish(token);
  }
  const size_t place = reported.task % schedule::kSegmentsAhead;
  const std::optional<Error>& error = invocation.body_errors[place];
  if (error) {
    const std::string pass = reported.trip < 0 ? "" : fmt::format(" in pass {}", reported.trip);
    fail(invocation, *error, "segment " + segment.name + pass);
  } else if (!invocation.error && invocation.counter.undecided() && invocation.live.empty()) {
    invocation.counter.decide(*session.plan, invocation.chosen[place]);
    session.index_stale = true;
  }
  if (reported.gate >= 0) open_publish(reported.gate);
  const bool ended = invocation.error || invocation.counter.ended(*session.plan);
  if (!ended && !invocation.live.empty()) see_wait(invocation);
  if (ended && invocation.live.empty()) finish(invocation);
}

void Policy::note_segment(Invocation& invocation, const Invocation::LiveSegment& reported) {
  const BodyTimes& times = invocation.times[reported.task % schedule::kSegmentsAhead];
  if (times.start_ns == 0) return;  // suppressed
  const SessionState& session = *invocation.session;
  const uint64_t ready_ns = std::min(invocation.ready_since_ns, times.start_ns);
  invocation.completion->diagnostics.segment_wait_s.push_back(double(times.start_ns - ready_ns) * 1e-9);
  invocation.ready_since_ns = times.end_ns;
  Observer& observer = effects_.observer();
  observer.on_milestone(Milestone::first_segment, times.start_ns);
  const plan::Segment& segment = session.plan->segments[size_t(reported.segment)];
  observer.on_task({.task = ++last_task_,
                    .kind = TaskKind::segment,
                    .scope = Scope::invocation,
                    .resource = segment.on_device ? ResourceClass::device : ResourceClass::cpu,
                    .original = Priority::critical,
                    .effective = Priority::critical,
                    .source = ByteSource::memory,
                    .executor = effects_.executor(),
                    .lane = times.lane,
                    .segment = reported.segment,
                    .invocation = int32_t(invocation.age),
                    .bytes_in_flight = bytes_in_flight_,
                    .queued_ns = ready_ns,
                    .start_ns = times.start_ns,
                    .end_ns = times.end_ns,
                    .cpu_ns = times.cpu_ns,
                    .name = segment.name});
}

// The first error counts. Segments that have not begun are no longer the invocation's: it ends with the one that has,
// or at once; the caller sees to that.
void Policy::fail(Invocation& invocation, const Error& error, const std::string& task) {
  if (invocation.error) return;
  invocation.error = error;
  // From the first that has not reported on, those that would have run in any case.
  const plan::PreparedExecutionPlan& plan = *invocation.session->plan;
  const ProgramCounter& counter = invocation.counter;
  plan::SegmentId left = counter.undecided() ? plan.join(counter.chooser()) : counter.next();
  if (!invocation.live.empty()) left = invocation.live.front().segment;
  take_back(invocation);
  Diagnostics& diagnostics = invocation.completion->diagnostics;
  diagnostics.failed_task = task;
  for (; left < plan::SegmentId(plan.segments.size()); left = plan.join(left))
    diagnostics.suppressed.push_back(plan.segments[size_t(left)].name);
}

// Their pins go back at once; their slot, and the gates that they name, when their bodies have reported.
void Policy::take_back(Invocation& invocation) {
  SessionState& session = *invocation.session;
  Slot& slot = slots_[size_t(invocation.slot)];
  slot.session = &session;
  for (int left = scheduler_->take_back(invocation.slot); left > 0; --left) {
    Invocation::LiveSegment& segment = invocation.live.back();
    unpin(session, session.plan->segments[size_t(segment.segment)]);
    abandon_rows(invocation, segment.segment);
    if (segment.gate >= 0) open_publish(segment.gate);
    slot.taken_back.insert(slot.taken_back.begin(), std::move(segment.named));
    ++session.in_flight;
    invocation.live.pop_back();
  }
}

// A segment that was taken back has run, and done nothing.
void Policy::taken_back_done(schedule::SlotToken token) {
  Slot& slot = slots_[size_t(token)];
  for (const schedule::PublishToken gate : slot.taken_back.front()) {
    --publishes_[size_t(gate)].named;
    release_publish(gate);
  }
  slot.taken_back.erase(slot.taken_back.begin());
  --slot.session->in_flight;
  free_slot(token);
}

void Policy::free_slot(schedule::SlotToken token) {
  const Slot& slot = slots_[size_t(token)];
  if (!slot.invocation && slot.taken_back.empty()) free_slots_.push_back(token);
}

// Whatever has not begun ends now: who waits for the handle never waits for a read.
void Policy::cancel(Completion& handle) {
  if (withdraw_hot(hot_, *scheduler_, handle)) return;
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->completion.get() == &handle && !preparation->error) {
      preparation->error =
          Error{ErrorKind::cancelled, "prepare", preparation->session->plan->model->metadata().path, "cancelled"};
    }
  }
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i]->completion.get() != &handle) continue;
    std::unique_ptr<Invocation> invocation = std::move(pending_[i]);
    pending_.erase(pending_.begin() + ptrdiff_t(i));
    --invocation->session->pending;
    const std::string& model = invocation->session->plan->model->metadata().path;
    refuse(std::move(invocation), Error{ErrorKind::cancelled, "run", model, "cancelled"});
    return;
  }
  for (const std::unique_ptr<Invocation>& invocation : live_) {
    if (invocation->completion.get() != &handle) continue;
    fail(*invocation,
         Error{ErrorKind::cancelled, "run", invocation->session->plan->model->metadata().path, "cancelled"}, "");
    if (invocation->live.empty()) finish(*invocation);
    return;
  }
}

// Everything is given back before the handle is terminal, so that whoever waited finds the ledger clean.
void Policy::finish(Invocation& invocation) {
  SessionState& session = *invocation.session;
  const bool succeeded = !invocation.error;
  if (invocation.slot >= 0) {
    slots_[size_t(invocation.slot)].invocation = nullptr;
    free_slot(invocation.slot);
    --session.live_invocations;
    session.index_stale = true;
    device_block_bytes_ -= memory_of(*invocation.work)[Domain::device];
  }
  const bool reads_rows = std::any_of(invocation.rows.begin(), invocation.rows.end(),
                                      [](const RowFetch& fetch) { return fetch.token >= 0; });
  if (reads_rows) orphan_rows_.push_back(std::move(invocation.rows));
  invocation.work->finish(succeeded);
  if (succeeded) {
    effects_.observer().on_milestone(Milestone::first_output, now_ns());
    keep_frame(invocation);
  }
  const CompletionRef completion = invocation.completion;
  const Status status = succeeded ? ok_status() : Status(*invocation.error);
  const auto found =
      std::find_if(live_.begin(), live_.end(), [&](const auto& item) { return item.get() == &invocation; });
  live_.erase(found);
  if (!succeeded) abandon_unwanted(session);
  completion->complete(status);
}

}  // namespace ompipe::session
