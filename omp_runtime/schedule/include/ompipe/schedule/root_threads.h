// Threads that open OpenMP regions and never end: ending a thread that was an OpenMP root crashes libomp.
#pragma once

#include <functional>
#include <future>

#include "ompipe/arenas/error.h"

namespace ompipe::schedule {

// Runs `job` on a root thread of the process's pool that opens regions of `team` threads and of no other size: libomp
// aborts now and then when a team becomes smaller (decision 0138). A thread whose job has returned waits there for the
// next one, and only then is the future ready, so the pool grows to the number of jobs of a size that run at once and
// no further. It is never destroyed. Any thread. The job must not throw. Error: environment, when the system refuses
// the pool's next thread.
Result<std::future<void>> run_on_root_thread(int team, std::function<void()> job);

// True in a child forked from a process that had root threads: they don't exist here, and OpenMP can't be used before
// an exec (measured: 9 of 40 such children failed). Any thread.
bool root_threads_lost_by_fork();

}  // namespace ompipe::schedule
