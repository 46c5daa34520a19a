#include "hot_runs.h"

namespace ompipe::session {
namespace {

Error cancelled_error(const SessionState& session) {
  return {ErrorKind::cancelled, "run", session.plan->model->metadata().path, "cancelled"};
}

FrameWork& work_of(HotSlot& slot) { return static_cast<FrameWork&>(*slot.work); }

}  // namespace

bool withdraw_hot(HotShared& shared, schedule::Scheduler& scheduler, Completion& handle) {
  if (!shared.slots.withdraw(handle.ticket)) return false;
  scheduler.taken_hot();
  const int index = handle.ticket.slot.load(std::memory_order_relaxed);
  HotSlot& slot = shared.slots[index];
  const CompletionRef completion = std::move(slot.completion);
  Error error = cancelled_error(*slot.session);
  slot.work->finish(false);
  shared.slots.put_idle(index, slot.session->instance);
  completion->complete(std::move(error));
  return true;
}

int HotRuns::take(const SessionState& session) {
  return session.gate.is_open() ? shared_.slots.take_idle(session.instance) : -1;
}

void HotRuns::put_idle(int slot) {
  shared_.slots.put_idle(slot, shared_.slots[slot].session->instance);
  released();
}

void HotRuns::released() {
  if (shared_.take_waiting()) host_.hot_released();
}

void HotRuns::tell(Milestone milestone, std::atomic<bool>& told) {
  if (!told.load(std::memory_order_relaxed) && !told.exchange(true)) host_.observer().on_milestone(milestone, now_ns());
}

std::optional<Status> HotRuns::run_now(SessionState& session, exec::RuntimeContext& context) {
  const int index = take(session);
  if (index < 0) return {};
  HotSlot& slot = shared_.slots[index];
  FrameWork& work = work_of(slot);
  if (Status status = work.bind(context); !status.ok()) {
    put_idle(index);
    return status;
  }
  struct Body {
    HotRuns& runs;
    int index;
  } body{*this, index};
  const auto execute_slot = [](void* arg, schedule::Worker& worker) {
    const Body& own = *static_cast<Body*>(arg);
    own.runs.execute(own.index, worker, nullptr);
  };
  slot.outcome.reset();
  if (work.reuse()) {
    slot.age = shared_.next_age();
    if (!host_.scheduler().run_on_caller(execute_slot, &body) || !slot.outcome) work.finish(false);
  }
  std::optional<Status> outcome = std::move(slot.outcome);
  put_idle(index);
  return outcome;
}

CompletionRef HotRuns::submit(SessionState& session, exec::RuntimeContext& context, uint64_t start_ns,
                              std::unique_ptr<FrameWork>& work) {
  const int index = take(session);
  if (index < 0) return nullptr;
  HotSlot& slot = shared_.slots[index];
  CompletionRef completion = shared_.slots.completion(index);
  completion->host = &host_;
  if (Status status = work_of(slot).bind(context); !status.ok()) {
    put_idle(index);
    completion->complete(std::move(status));
    return completion;
  }
  if (!work_of(slot).reuse()) {
    // What waits for its turn must not hold memory that an elder may need.
    work_of(slot).release_memory();
    work.reset(static_cast<FrameWork*>(slot.work.release()));
    shared_.slots.put_empty(index);
    released();
    return nullptr;
  }
  slot.completion = completion;
  slot.age = shared_.next_age();
  slot.outcome.reset();
  completion->diagnostics.submission_s = double(now_ns() - start_ns) * 1e-9;
  shared_.slots.publish(index, session.instance, completion->ticket);
  host_.scheduler().publish_hot();
  return completion;
}

// Leaves no outcome if the session's gate was closed.
void HotRuns::execute(int index, schedule::Worker& worker, Completion* handle) {
  HotSlot& slot = shared_.slots[index];
  SessionState& session = *slot.session;
  FrameWork& work = work_of(slot);
  if (!session.gate.claim()) return;
  const double predicted_ns = work.predicted_ns();
  worker.expect(predicted_ns);
  tell(Milestone::first_segment, told_segment_);
  const auto segments = plan::SegmentId(session.plan->segments.size());
  Status status = ok_status();
  plan::SegmentId segment = 0;
  for (; status.ok() && segment < segments; ++segment) {
    if (handle && handle->cancelled.load(std::memory_order_relaxed)) {
      status = cancelled_error(session);
      break;
    }
    status = work.run_segment(segment, *session.store, {}, worker, host_.scheduler().threads());
    if (!status.ok() && handle)
      handle->diagnostics.failed_task = "segment " + session.plan->segments[size_t(segment)].name;
  }
  for (; handle && segment < segments; ++segment)
    handle->diagnostics.suppressed.push_back(session.plan->segments[size_t(segment)].name);
  work.finish(status.ok());
  if (status.ok()) tell(Milestone::first_output, told_output_);
  session.gate.leave(now_ns(), uint64_t(predicted_ns));
  slot.outcome = std::move(status);
}

int HotRuns::run_claimable(schedule::Worker& worker) {
  const int index = shared_.slots.claim_oldest();
  if (index < 0) return -1;
  host_.scheduler().taken_hot();
  execute(index, worker, shared_.slots[index].completion.get());
  return index;
}

// Everything is given back before the handle is terminal; what is waited for is looked at last.
void HotRuns::ran_claimable(int index) {
  HotSlot& slot = shared_.slots[index];
  CompletionRef handle = std::move(slot.completion);
  if (!slot.outcome) return hand_over(index, std::move(handle));
  Status status = *std::move(slot.outcome);
  slot.outcome.reset();
  handle->diagnostics.hot = true;
  shared_.slots.put_idle(index, slot.session->instance);
  handle->complete(std::move(status));
  handle.reset();
  released();
}

// The session lost something before its turn came: the frame goes on cold, bound as it is and with the age it has. The
// slot stays taken until the policy has the invocation: a session whose slots are idle may be closed.
void HotRuns::hand_over(int index, CompletionRef handle) {
  HotSlot& slot = shared_.slots[index];
  FrameWork& work = work_of(slot);
  work.finish(false);
  work.release_memory();
  auto invocation = std::make_unique<Invocation>();
  invocation->session = slot.session;
  invocation->completion = std::move(handle);
  invocation->age = slot.age;
  invocation->rows = work.rows();
  invocation->completion->diagnostics.segment_wait_s.reserve(slot.session->plan->segments.size());
  invocation->work = std::move(slot.work);
  invocation->left_slot = index;
  host_.submit(std::move(invocation));
}

void HotRuns::run_here(Completion& handle) {
  if (!shared_.slots.claimable(handle.ticket)) return;
  struct Body {
    HotRuns& runs;
    Completion& handle;
    bool claimed = false;
  } body{*this, handle};
  const auto claim_and_execute = [](void* arg, schedule::Worker& worker) {
    Body& own = *static_cast<Body*>(arg);
    HotRuns& runs = own.runs;
    own.claimed = runs.shared_.slots.claim(own.handle.ticket);
    if (!own.claimed) return;
    runs.host_.scheduler().taken_hot();
    runs.execute(own.handle.ticket.slot.load(std::memory_order_relaxed), worker, &own.handle);
  };
  if (host_.scheduler().run_on_caller(claim_and_execute, &body) && body.claimed)
    ran_claimable(handle.ticket.slot.load(std::memory_order_relaxed));
}

bool HotRuns::cancel(Completion& handle) {
  handle.cancelled.store(true);
  if (!withdraw_hot(shared_, host_.scheduler(), handle)) return false;
  released();
  return true;
}

}  // namespace ompipe::session
