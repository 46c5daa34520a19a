// The state that a handle shares with the policy: done or not, how it ended, what it keeps alive.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "home_process.h"
#include "ompipe/session/handle.h"

namespace ompipe::session {

// What a handle turns to, beyond waiting. Any thread.
class HandleHost {
 public:
  virtual ~HandleHost() = default;
  virtual void cancel(exec::Ref<Completion> handle) = 0;
};

struct Completion final : exec::Counted {
  // Once; wakes all waiters.
  void complete(Status status);
  void wait();
  bool ready();

  const HomeProcess home;  // elsewhere nothing below may be touched
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Status> status;  // set once, under mutex
  Diagnostics diagnostics;       // written before `status` is set, constant after
  HandleHost* host = nullptr;    // set before the handle is given out; null: there is nothing to cancel

 private:
  void unreferenced() noexcept override { delete this; }
};

using CompletionRef = exec::Ref<Completion>;
inline CompletionRef make_completion() { return CompletionRef(new Completion); }

}  // namespace ompipe::session
