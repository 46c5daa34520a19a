// The reference scheduler: one runtime thread that does policy, reads, prepacks and segments, one thing at a time.
#pragma once

#include <memory>

#include "ompipe/schedule/scheduler.h"

namespace ompipe::schedule {

// Errors: environment, when the system refuses the thread.
Result<std::unique_ptr<Scheduler>> open_sequential(const SchedulerOptions& options, Director& director);

}  // namespace ompipe::schedule
