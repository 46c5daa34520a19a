// Settings in force that would break a persistent OpenMP region, found before it opens.
#pragma once

#include <map>
#include <string>

#include "ompipe/arenas/error.h"

namespace ompipe::schedule {

// Checks OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS, and under libomp KMP_LIBRARY, KMP_TASKING and KMP_USE_YIELD, for a
// team of threads + 1 beside `io_threads` others. Errors: environment, naming the variable, its value and what is
// needed. Must run on the region's root thread.
Status check_environment(int threads, int io_threads);

// The variables with these prefixes that are set (OMP_, KMP_, GOMP_), for the report. Any thread, while none changes
// the environment.
std::map<std::string, std::string> openmp_environment();

// Name and version of the OpenMP runtime that serves this library, with the file it was loaded from (dladdr). Any
// thread.
std::string openmp_runtime();

}  // namespace ompipe::schedule
