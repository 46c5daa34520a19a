// SIGINT and SIGTERM while a model runs: handles are cancelled, everything drains, and the program ends with status
// 130.
#pragma once

#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/arenas/mutex.h"
#include "ompipe/session/handle.h"

namespace ompipe::cli {

// Blocks the two signals in the calling thread, and so in every thread that is started while it lives; a thread of its
// own waits for them. Make it before the runtime. One at a time in a process.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Whether its thread could be started; else environment, and signals stay blocked.
  const Status& status() const { return started_; }
  // Waits for the handle; a signal that comes meanwhile, or came before, cancels it. Any thread.
  Status wait(session::ExecutionHandle& handle);
  // Cancelled, if a signal has come.
  Status check();
  // The longest that a handle took to end after a signal had cancelled it; absent when none was.
  std::optional<double> cancel_s();

 private:
  void watch();

  sigset_t previous_mask_;
  Status started_ = ok_status();  // written by the constructor only
  int signal_descriptor_ = -1, stop_descriptor_ = -1;
  Mutex mutex_;
  std::vector<session::ExecutionHandle*> waited_ OMPIPE_GUARDED_BY(mutex_);
  bool requested_ OMPIPE_GUARDED_BY(mutex_) = false;
  std::optional<double> cancel_s_ OMPIPE_GUARDED_BY(mutex_);
  std::thread watcher_;
};

}  // namespace ompipe::cli
