// Hot runs outside the serial context: submitted, claimed, executed and ended by callers and compute threads.
#pragma once

#include <memory>
#include <optional>

#include "frame_work.h"
#include "hot_slots.h"

namespace ompipe::session {

// What hot runs need of their runtime. Any thread.
class HotHost : public HandleHost {
 public:
  virtual schedule::Scheduler& scheduler() = 0;
  virtual Observer& observer() = 0;
  // Takes an invocation that can't run hot after all.
  virtual void submit(std::unique_ptr<Invocation> invocation) = 0;
  // The policy waits for what has just been given back.
  virtual void hot_released() = 0;
};

// Ends a published invocation that nobody has claimed, as cancelled; false: it is no such. Any thread. The caller calls
// HotRuns::released afterwards, unless it is the policy itself.
bool withdraw_hot(HotShared& shared, schedule::Scheduler& scheduler, Completion& handle);

// Thread rule: every function on any thread; run_claimable and ran_claimable as schedule::Director says.
class HotRuns {
 public:
  HotRuns(HotShared& shared, HotHost& host) : shared_(shared), host_(host) {}

  // Runs on this thread, unpublished, if the session may run hot, a kept frame fits the context and a place is free;
  // nothing otherwise.
  std::optional<Status> run_now(SessionState& session, exec::RuntimeContext& context);
  // Publishes, if the session may run hot and a kept frame fits the context; the handle's state then. Else null, and
  // `work` may be a bound frame to go on with. An error of the bind ends the handle.
  CompletionRef submit(SessionState& session, exec::RuntimeContext& context, uint64_t start_ns,
                       std::unique_ptr<FrameWork>& work);

  int run_claimable(schedule::Worker& worker);
  void ran_claimable(int slot);
  void run_here(Completion& handle);
  // False: it is the policy's, has ended, or will look at Completion::cancelled.
  bool cancel(Completion& handle);

 private:
  int take(const SessionState& session);
  void put_idle(int slot);
  void execute(int slot, schedule::Worker& worker, Completion* handle);
  void hand_over(int slot, CompletionRef handle);
  void released();
  void tell(Milestone milestone, std::atomic<bool>& told);

  HotShared& shared_;
  HotHost& host_;
  std::atomic<bool> told_segment_{false}, told_output_{false};
};

}  // namespace ompipe::session
