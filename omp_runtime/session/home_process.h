// The process that a runtime and all that hangs on it belong to: in a child forked from it the threads don't exist, and
// a lock may be held by one of them for ever.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "ompipe/arenas/error.h"

namespace ompipe::session {

// Constant after its construction, which happens in the process that its owner belongs to. Any thread.
class HomeProcess {
 public:
  // True in a child: of what belongs to this process only what never changes may be looked at there, and nothing of it
  // may be destroyed. By the id, not by a fork handler: a child made by clone() calls none.
  bool left() const { return getpid() != id_; }

  // What a call in such a child ends with: environment, naming fork.
  static Error error(const std::string& phase, const std::string& subject) {
    return {.phase = phase,
            .subject = subject,
            .reason =
                "this process was forked from the one that it belongs to, whose threads are not here (fork); "
                "needed: a runtime opened here, or an exec"};
  }

 private:
  const pid_t id_ = getpid();
};

// Lets the child's copy of a member be, for ever: its destructor would wait for threads that don't exist.
template <class T>
void leave_alone(T& member) {
  [[maybe_unused]] T* const kept = std::make_unique<T>(std::move(member)).release();
}

}  // namespace ompipe::session
