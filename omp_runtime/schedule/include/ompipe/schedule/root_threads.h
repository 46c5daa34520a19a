// Threads that open OpenMP regions and never end: ending a thread that was an OpenMP root crashes libomp.
#pragma once

#include <functional>

namespace ompipe::schedule {

// Runs `job` on a root thread of the process's pool; a thread whose job has returned waits there for the next one. The
// pool grows to the number of jobs that run at once and is never destroyed. Any thread. The job must not throw.
void run_on_root_thread(std::function<void()> job);

}  // namespace ompipe::schedule
