#include "ompipe/trace/report.h"

#include <algorithm>
#include <cmath>

namespace ompipe::trace {

void add_recorded(Report& report, const Recorder& recorder) {
  for (int i = 0; i < session::kMilestones; ++i)
    report.milestone_ns[size_t(i)] = recorder.milestone_ns(session::Milestone(i));
  for (int i = 0; i < kTaskKinds; ++i) report.sums[size_t(i)] = recorder.sum(session::TaskKind(i));
  for (const session::TaskEvent& event : recorder.events()) {
    if (event.resource != session::ResourceClass::cpu || event.queued_ns == 0) continue;
    report.ready_queue_s.push_back(event.start_ns > event.queued_ns ? double(event.start_ns - event.queued_ns) * 1e-9
                                                                    : 0);
  }
  report.dropped_events = recorder.dropped();
}

double quantile(std::span<const double> samples, double q) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  const size_t rank = size_t(std::ceil(q * double(sorted.size())));
  const size_t index = std::clamp<size_t>(rank, 1, sorted.size()) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + ptrdiff_t(index), sorted.end());
  return sorted[index];
}

}  // namespace ompipe::trace
