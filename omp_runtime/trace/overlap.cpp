#include "ompipe/trace/overlap.h"

#include <algorithm>

namespace ompipe::trace {

using session::TaskEvent;
using session::TaskKind;

Overlap compute_overlap(const OverlapInputs& inputs) {
  Overlap overlap;
  overlap.measured_s = inputs.measured_s;
  overlap.read_s = inputs.read_s;
  overlap.io_side_s = inputs.bound_read_s.value_or(inputs.read_s);
  overlap.cpu_side_s =
      (inputs.prepack_s + inputs.compute_s + inputs.io_cpu_s) / std::max(1, std::min(inputs.threads, inputs.cores));
  overlap.sum_s = overlap.io_side_s + overlap.cpu_side_s;
  overlap.longest_s = std::max(overlap.io_side_s, overlap.cpu_side_s);
  overlap.bound_s = overlap.longest_s;
  if (inputs.bound_read_s) overlap.from = inputs.bound_file;
  const double shorter_s = overlap.sum_s - overlap.longest_s;
  if (shorter_s > 0 && shorter_s >= 0.05 * overlap.sum_s) {
    overlap.hidden = (overlap.sum_s - overlap.measured_s) / shorter_s;
  }
  return overlap;
}

std::optional<OverlapInputs> first_run_inputs(std::span<const TaskEvent> events, uint64_t first_output_ns) {
  uint64_t first_read_ns = UINT64_MAX, end_ns = first_output_ns;
  uint32_t first_generation = UINT32_MAX;
  for (const TaskEvent& event : events) {
    if (event.kind == TaskKind::publish) first_generation = std::min(first_generation, event.generation);
  }
  for (const TaskEvent& event : events) {
    if (event.kind == TaskKind::read) first_read_ns = std::min(first_read_ns, event.start_ns);
    if (event.kind == TaskKind::publish && event.generation == first_generation)
      end_ns = std::max(end_ns, event.end_ns);
  }
  if (first_read_ns == UINT64_MAX || end_ns <= first_read_ns) return std::nullopt;
  OverlapInputs inputs;
  inputs.measured_s = double(end_ns - first_read_ns) * 1e-9;
  for (const TaskEvent& event : events) {
    if (event.start_ns >= end_ns) continue;
    if (event.kind == TaskKind::read) inputs.read_s += double(event.end_ns - event.start_ns) * 1e-9;
    if (event.kind == TaskKind::prepack) inputs.prepack_s += double(event.cpu_ns) * 1e-9;
    if (event.kind == TaskKind::segment) inputs.compute_s += double(event.cpu_ns) * 1e-9;
  }
  return inputs;
}

}  // namespace ompipe::trace
