// The handle of one preparation or one inference: wait for it, ask for it, learn how it ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/exec/owner.h"

namespace ompipe::session {

struct Completion;  // shared with the policy; see completion.h

// How a handle ended, beyond its Status.
struct Diagnostics {
  std::string failed_task;              // "prepack layers.3.down", "segment lm_head"; empty when nothing failed
  std::vector<std::string> suppressed;  // tasks that did not run because of it
  double submission_s = 0;              // time the submitting call took
  double cancel_s = 0;                  // from the first Cancel to the end, if it ended as cancelled
  bool hot = false;                     // it ran on the hot path: at once, with nothing to read, prepare or wait for
  std::vector<double> segment_wait_s;   // of each segment: from its predecessor's end (or submission) to its own start;
                                        // empty for a hot run
};

// Movable, not copyable. Keeps session and stores alive, and the context of a run that was given a shared one. The
// destructor waits: a caller's inputs may be freed after it. Thread rule: Wait and IsReady may be called from many
// threads; moving and destroying are the owner's. In a child forked from its process it is terminal: Wait gives an
// error that names fork, Cancel does nothing, diagnostics are empty, and destroying it only forgets it.
class ExecutionHandle {
 public:
  ExecutionHandle();
  ExecutionHandle(exec::Ref<Completion> completion, std::shared_ptr<void> keep_alive);
  ExecutionHandle(ExecutionHandle&&) noexcept;
  ExecutionHandle& operator=(ExecutionHandle&& other) noexcept;
  ~ExecutionHandle();

  // Returns when every task of this handle's own is terminal, with its first error. What can run hot and has not
  // started is run by the caller.
  Status Wait() const;
  bool IsReady() const;  // never blocks
  // Asks that nothing more of this handle's own starts. It ends as cancelled, unless it was done before: at once, or
  // when the segment that runs has ended; it never waits for a read. Loads of the session that others want go on.
  void Cancel();
  // Only after Wait has returned.
  const Diagnostics& diagnostics() const;
  bool valid() const { return bool(completion_); }

 private:
  friend class RuntimeSession;
  // Waits for what it holds; in a forked child forgets it.
  void let_go();

  std::shared_ptr<void> keep_alive_;  // let go here, on the owner's thread, never by the thread that completes
  std::shared_ptr<void> context_;     // of a run that was given one to keep
  exec::Ref<Completion> completion_;
};

}  // namespace ompipe::session
