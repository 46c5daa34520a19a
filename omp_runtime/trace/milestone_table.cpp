#include <fmt/format.h>

#include <algorithm>

#include "ompipe/trace/report.h"

namespace ompipe::trace {

std::string milestone_table(const Report& report) {
  std::vector<std::pair<uint64_t, session::Milestone>> happened;
  for (int i = 0; i < session::kMilestones; ++i) {
    const auto& at = report.milestone_ns[size_t(i)];
    if (at) happened.emplace_back(*at, session::Milestone(i));
  }
  std::sort(happened.begin(), happened.end());
  std::string text;
  for (const auto& [at, milestone] : happened) {
    text +=
        fmt::format("{:<20}{:>10.3f} ms\n", milestone_name(milestone), double(int64_t(at - report.start_ns)) * 1e-6);
  }
  if (!report.overlap) return text;
  const Overlap& overlap = *report.overlap;
  text += fmt::format("overlap: measured {:.3f} ms, reading {:.3f} ms ({}), packing and computing {:.3f} ms",
                      overlap.measured_s * 1e3, overlap.io_side_s * 1e3, overlap.from, overlap.cpu_side_s * 1e3);
  text += overlap.hidden ? fmt::format(", hidden {:.2f}\n", *overlap.hidden)
                         : ", hidden: the shorter side is too small to tell\n";
  return text;
}

}  // namespace ompipe::trace
