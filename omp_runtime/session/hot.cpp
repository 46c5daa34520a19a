// The policy's side of hot runs: which sessions may run so, what waits to be claimed, and the frames that are kept.
#include "hot_runs.h"
#include "policy.h"

namespace ompipe::session {

// Opens the session's gate if everything is resident, and no gang waits for it to stay closed.
void Policy::arm(SessionState& session) {
  // The executor walks straight on: what branches or loops runs cold.
  if (session.plan->flows()) return;
  if (options_.hot && session.resident == session.objects.size() && !session.gate_held) session.gate.open();
}

void Policy::arm_gates() {
  for (SessionState* session : sessions_) arm(*session);
  if (cold_lives_ != live_.empty()) return;
  cold_lives_ = !live_.empty();
  scheduler_->limit_hot(cold_lives_);
}

// An invocation of a session that may run hot needs a slot of the array instead of a chain: an empty one, or that of
// the least recently used frame. -1: it runs in segments.
int Policy::take_hot_slot(const SessionState& session) {
  if (!session.gate.is_open()) return -1;
  const int empty = hot_.slots.take_empty();
  if (empty >= 0) return empty;
  int slot = hot_.slots.take_oldest_idle(session.instance);
  if (slot < 0) slot = hot_.slots.take_oldest_idle(0);
  if (slot >= 0) hot_.slots[slot].work.reset();
  return slot;
}

// Its memory is reserved and attached; from here on it is whoever's who claims it.
void Policy::publish_hot(Invocation& invocation, int index) {
  HotSlot& slot = hot_.slots[index];
  slot.session = invocation.session;
  slot.work = std::move(invocation.work);
  slot.completion = std::move(invocation.completion);
  slot.age = invocation.age;
  hot_.slots.publish(index, invocation.session->instance, slot.completion->ticket);
  scheduler_->publish_hot();
}

// After an invocation that ended well: its frame and memory stay reserved for the session's next run.
void Policy::keep_frame(Invocation& invocation) {
  SessionState& session = *invocation.session;
  if (session.closing) return;
  const int index = take_hot_slot(session);
  if (index < 0) return;
  HotSlot& slot = hot_.slots[index];
  slot.session = &session;
  slot.work = std::move(invocation.work);
  slot.age = invocation.age;
  hot_.slots.put_idle(index, session.instance);
}

// Gives back what the least recently used kept frame holds; false: none is idle.
bool Policy::trim_idle() {
  const int index = hot_.slots.take_oldest_idle(0);
  if (index < 0) return false;
  hot_.slots[index].work.reset();
  hot_.slots.put_empty(index);
  return true;
}

void Policy::empty_slots(const SessionState& session) {
  for (int index = hot_.slots.take_idle(session.instance); index >= 0; index = hot_.slots.take_idle(session.instance)) {
    hot_.slots[index].work.reset();
    hot_.slots.put_empty(index);
  }
}

// Whether a hot run of the session (null: of any) is on its way, which then leads to another pump.
bool Policy::hot_busy(const SessionState* session) {
  const auto busy = [&] { return session ? hot_.slots.busy(session->instance) : hot_.slots.busy(); };
  if (!busy()) return false;
  hot_.waiting.store(true);
  return busy();
}

// After something was refused that hot runs may hold: once more, now that whoever gives something back will say so.
bool Policy::look_again() { return std::exchange(hot_blocked_, false) && !hot_.waiting.exchange(true); }

// Whether something may be evicted from the session now; no run claims it from here on.
bool Policy::close_gate(SessionState& session) {
  if (session.gate.close()) return true;
  hot_blocked_ = true;
  return false;
}

// Takes what hot runs have left behind into account: whether more are to come, and when everything was used last.
void Policy::see_hot_runs(SessionState& session) {
  if (!options_.hot) return;
  const bool live = session.gate.expects_run(now_ns()) || hot_.slots.busy(session.instance);
  if (live != session.hot_live) session.index_stale = true;
  session.hot_live = live;
  const uint64_t end_ns = session.gate.last_end_ns();
  if (end_ns == session.hot_seen_ns) return;
  session.hot_seen_ns = end_ns;
  session.index_stale = true;
  for (size_t i = 0; i < session.objects.size(); ++i)
    session.objects[i].last_use = session.clock + uint64_t(session.plan->objects[i].uses.back()) + 1;
  session.clock += session.plan->segments.size();
}

}  // namespace ompipe::session
