// The state that a handle shares with the policy: done or not, how it ended, what it keeps alive.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
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
  // On a thread that is about to wait: runs the invocation here if it has been published and nobody has claimed it.
  virtual void run_here(Completion& handle) = 0;
};

// Where a published invocation can be claimed: the slot, and what its word was then. Word 0: nowhere yet.
struct HotTicket {
  std::atomic<int32_t> slot{-1};  // written before `word`
  std::atomic<uint64_t> word{0};
};

struct Completion final : exec::Counted {
  Completion() = default;
  // One of a pool, which outlives its references.
  struct Pooled {};
  explicit Completion(Pooled) : pooled_(true) {}
  // As it was when it was made. Nobody refers to it.
  void renew();

  // Once; wakes all waiters.
  void complete(Status status);
  void wait();
  bool ready();

  const HomeProcess home;  // elsewhere nothing below may be touched
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Status> status;        // set once, under mutex
  Diagnostics diagnostics;             // written before `status` is set, constant after
  HandleHost* host = nullptr;          // set before the handle is given out; null: there is nothing to cancel
  std::atomic<uint64_t> cancel_ns{0};  // when it was first asked to end; 0: never
  HotTicket ticket;
  std::atomic<bool> cancelled{false};  // looked at between the segments of a hot run, and when one is handed back

 private:
  void unreferenced() noexcept override {
    if (!pooled_) std::unique_ptr<Completion>(this).reset();
  }
  const bool pooled_ = false;
};

using CompletionRef = exec::Ref<Completion>;
inline CompletionRef make_completion() { return CompletionRef(std::make_unique<Completion>().release()); }

}  // namespace ompipe::session
