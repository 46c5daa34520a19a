#include "ompipe/session/handle.h"

#include "completion.h"
#include "ompipe/session/observer.h"

namespace ompipe::session {

// Strings and lists keep their room.
void Completion::renew() {
  status.reset();
  diagnostics.failed_task.clear();
  diagnostics.suppressed.clear();
  diagnostics.segment_wait_s.clear();
  diagnostics.submission_s = diagnostics.cancel_s = 0;
  diagnostics.hot = false;
  cancel_ns.store(0, std::memory_order_relaxed);
  ticket.word.store(0, std::memory_order_relaxed);
  cancelled.store(false, std::memory_order_relaxed);
}

void Completion::complete(Status end) {
  std::lock_guard lock(mutex);
  OMPIPE_CHECK(!status, "a handle was completed twice");
  const uint64_t asked_ns = cancel_ns.load();
  if (asked_ns > 0 && !end.ok() && end.error().kind == ErrorKind::cancelled)
    diagnostics.cancel_s = double(now_ns() - asked_ns) * 1e-9;
  status = std::move(end);
  done.notify_all();
}

void Completion::wait() {
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return status.has_value(); });
}

bool Completion::ready() {
  std::lock_guard lock(mutex);
  return status.has_value();
}

namespace {

void wait_for(Completion& completion) {
  if (completion.host) completion.host->run_here(completion);
  completion.wait();
}

}  // namespace

ExecutionHandle::ExecutionHandle() = default;
ExecutionHandle::ExecutionHandle(ExecutionHandle&&) noexcept = default;
ExecutionHandle::ExecutionHandle(CompletionRef completion, std::shared_ptr<void> keep_alive)
    : keep_alive_(std::move(keep_alive)), completion_(std::move(completion)) {}

ExecutionHandle& ExecutionHandle::operator=(ExecutionHandle&& other) noexcept {
  if (this == &other) return *this;
  let_go();
  completion_ = std::move(other.completion_);
  keep_alive_ = std::move(other.keep_alive_);
  context_ = std::move(other.context_);
  return *this;
}

ExecutionHandle::~ExecutionHandle() { let_go(); }

void ExecutionHandle::let_go() {
  if (!completion_) return;
  if (completion_->home.left()) {
    leave_alone(completion_);
    leave_alone(keep_alive_);
    leave_alone(context_);
  } else {
    wait_for(*completion_);
  }
}

Status ExecutionHandle::Wait() const {
  OMPIPE_CHECK(valid(), "Wait on a handle that was moved from");
  if (completion_->home.left()) return HomeProcess::error("wait", "handle");
  wait_for(*completion_);
  return *completion_->status;
}

bool ExecutionHandle::IsReady() const {
  OMPIPE_CHECK(valid(), "IsReady on a handle that was moved from");
  return completion_->home.left() || completion_->ready();
}

void ExecutionHandle::Cancel() {
  OMPIPE_CHECK(valid(), "Cancel on a handle that was moved from");
  if (completion_->home.left() || !completion_->host || completion_->ready()) return;
  uint64_t never = 0;
  completion_->cancel_ns.compare_exchange_strong(never, now_ns());
  completion_->host->cancel(completion_);
}

const Diagnostics& ExecutionHandle::diagnostics() const {
  static const Diagnostics none;
  OMPIPE_CHECK(valid() && IsReady(), "diagnostics before the end");
  if (completion_->home.left()) return none;
  return completion_->diagnostics;
}

}  // namespace ompipe::session
