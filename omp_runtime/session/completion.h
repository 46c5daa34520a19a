// The state that a handle shares with the policy: done or not, how it ended, what it keeps alive.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "home_process.h"
#include "ompipe/session/handle.h"

namespace ompipe::session {

struct Completion {
  // Once; wakes all waiters.
  void complete(Status status);
  void wait();
  bool ready();

  const HomeProcess home;  // elsewhere nothing below may be touched
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Status> status;        // set once, under mutex
  Diagnostics diagnostics;             // written before `status` is set, constant after
  std::function<void()> cancel;        // posts to the policy; set before the handle is given out
  std::atomic<uint64_t> cancel_ns{0};  // when it was first asked to end; 0: never
};

}  // namespace ompipe::session
