#include "interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "ompipe/arenas/start_thread.h"

namespace ompipe::cli {

Interrupt::Interrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  OMPIPE_CHECK(pthread_sigmask(SIG_BLOCK, &signals, &previous_mask_) == 0);
  signal_descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC);
  stop_descriptor_ = eventfd(0, EFD_CLOEXEC);
  OMPIPE_CHECK(signal_descriptor_ >= 0 && stop_descriptor_ >= 0, "no descriptor left for signals");
  Result<std::thread> watcher = start_thread("signal thread", [this] { watch(); });
  if (watcher.ok()) {
    watcher_ = *std::move(watcher);
  } else {
    started_ = watcher.error();
  }
}

Interrupt::~Interrupt() {
  const uint64_t stop = 1;
  OMPIPE_CHECK(write(stop_descriptor_, &stop, sizeof stop) == sizeof stop);
  if (watcher_.joinable()) watcher_.join();
  close(signal_descriptor_);
  close(stop_descriptor_);
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

void Interrupt::watch() {
  while (true) {
    pollfd descriptors[] = {{signal_descriptor_, POLLIN, 0}, {stop_descriptor_, POLLIN, 0}};
    if (poll(descriptors, 2, -1) < 0) continue;
    if (descriptors[1].revents) return;
    signalfd_siginfo received;
    if (read(signal_descriptor_, &received, sizeof received) != ssize_t(sizeof received)) continue;
    MutexLock lock(mutex_);
    requested_ = true;
    for (session::ExecutionHandle* handle : waited_) handle->Cancel();
  }
}

Status Interrupt::wait(session::ExecutionHandle& handle) {
  {
    MutexLock lock(mutex_);
    waited_.push_back(&handle);
    if (requested_) handle.Cancel();
  }
  Status status = handle.Wait();
  MutexLock lock(mutex_);
  std::erase(waited_, &handle);
  if (!status && status.error().kind == ErrorKind::cancelled)
    cancel_s_ = std::max(cancel_s_.value_or(0), handle.diagnostics().cancel_s);
  return status;
}

Status Interrupt::check() {
  MutexLock lock(mutex_);
  if (!requested_) return ok_status();
  return Error{.kind = ErrorKind::cancelled, .phase = "run", .subject = {}, .reason = "interrupted by a signal"};
}

std::optional<double> Interrupt::cancel_s() {
  MutexLock lock(mutex_);
  return cancel_s_;
}

}  // namespace ompipe::cli
