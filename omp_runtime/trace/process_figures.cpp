#include <sys/resource.h>

#include <fstream>
#include <string>

#include "ompipe/trace/report.h"

namespace ompipe::trace {

ProcessFigures process_figures() {
  ProcessFigures figures;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  figures.minor_faults = uint64_t(usage.ru_minflt);
  figures.major_faults = uint64_t(usage.ru_majflt);
  figures.peak_rss_bytes = uint64_t(usage.ru_maxrss) * 1024;
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    uint64_t kib = 0;
    if (key == "RssAnon:" && status >> kib) figures.private_bytes = kib * 1024;
    status.ignore(1 << 12, '\n');
  }
  return figures;
}

}  // namespace ompipe::trace
