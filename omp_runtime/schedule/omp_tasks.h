// The OpenMP scheduler: one persistent region, gates and tasks with depend clauses, a coordinator that never computes.
#pragma once

#include <memory>

#include "ompipe/schedule/scheduler.h"

namespace ompipe::schedule {

// Errors: environment, when settings in force or the team as it came forbid it.
Result<std::unique_ptr<Scheduler>> open_omp_tasks(const SchedulerOptions& options, Director& director);

}  // namespace ompipe::schedule
