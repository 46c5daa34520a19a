#include "ompipe/schedule/environment.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace ompipe::schedule {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

Error refusal(const char* name, const std::string& needed) {
  const std::string value = variable(name);
  return Error{ErrorKind::environment, "environment", name,
               value.empty() ? fmt::format("the setting in force forbids an OpenMP team; needed: {}", needed)
                             : fmt::format("its value is '{}'; needed: {}", value, needed)};
}

#ifdef __clang__
// A variable that libomp reads as a number and has no call to tell; none if it is unset or none.
std::optional<long> number(const char* name) {
  const std::string value = variable(name);
  char* end = nullptr;
  const long read = std::strtol(value.c_str(), &end, 10);
  return end == value.c_str() ? std::nullopt : std::optional(read);
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

constexpr int kSerialLibrary = 1;  // enum library_type in libomp's kmp.h

// Settings that libomp alone reads.
Status check_libomp(int threads, int io_threads) {
  if (kmp_get_library() == kSerialLibrary) return refusal("KMP_LIBRARY", "throughput or turnaround, or unset");
  // 0 runs tasks in their creator, 1 aborts on the first detached one; libomp takes what is out of range as the
  // nearest.
  if (number("KMP_TASKING").value_or(2) < 2) return refusal("KMP_TASKING", "2, or unset");
  if (number("KMP_USE_YIELD") == 0 && threads + 1 + io_threads > usable_cores()) {
    return refusal("KMP_USE_YIELD", fmt::format("1 or 2, or unset, while {} threads share {} cores",
                                                threads + 1 + io_threads, usable_cores()));
  }
  return ok_status();
}
#else
Status check_libomp(int, int) { return ok_status(); }
#endif

}  // namespace

Status check_environment(int threads, int io_threads) {
  if (omp_get_thread_limit() < threads + 1) {
    return refusal("OMP_THREAD_LIMIT",
                   fmt::format("at least {} ({} compute threads and one coordinator)", threads + 1, threads));
  }
  if (omp_get_max_active_levels() < 1) return refusal("OMP_MAX_ACTIVE_LEVELS", "at least 1");
  return check_libomp(threads, io_threads);
}

std::map<std::string, std::string> openmp_environment() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry; ++entry) {
    for (const char* prefix : {"OMP_", "KMP_", "GOMP_"}) {
      if (std::strncmp(*entry, prefix, std::strlen(prefix)) != 0) continue;
      const std::string_view text = *entry;
      const size_t equals = text.find('=');
      if (equals != text.npos) found.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return found;
}

std::string openmp_runtime() {
  Dl_info info{};
  const void* const symbol = reinterpret_cast<const void*>(&omp_get_num_threads);
  const std::string file = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "unknown";
#ifdef __clang__
  return fmt::format("libomp, OpenMP {}, {}", _OPENMP, file);
#else
  return fmt::format("libgomp, OpenMP {}, {}", _OPENMP, file);
#endif
}

}  // namespace ompipe::schedule
