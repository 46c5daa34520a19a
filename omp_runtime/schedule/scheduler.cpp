#include "ompipe/schedule/scheduler.h"

#include <fmt/format.h>

#include "omp_tasks.h"
#include "sequential.h"

namespace ompipe::schedule {

Result<std::unique_ptr<Scheduler>> open_scheduler(const std::string& name, const SchedulerOptions& options,
                                                  Director& director) {
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return Error{ErrorKind::usage, "scheduler", name,
                 fmt::format("{} threads; expected 1 to {}", options.threads, kMaxThreads)};
  }
  if (name == "sequential") return open_sequential(options, director);
  if (name == "omp-tasks") return open_omp_tasks(options, director);
  return Error{ErrorKind::usage, "scheduler", name, "unknown; expected omp-tasks or sequential"};
}

}  // namespace ompipe::schedule
