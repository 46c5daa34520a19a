// How much of reading hides behind packing and computing in a first run: the report's `overlap`, as pure arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ompipe/arenas/error.h"
#include "ompipe/session/observer.h"

namespace ompipe::trace {

// What the formula needs, of the first run; seconds.
struct OverlapInputs {
  double measured_s = 0;  // from the first read to the later of first output and last publish
  double read_s = 0;      // wall time of the device's calls
  double prepack_s = 0, compute_s = 0, io_cpu_s = 0;  // CPU time
  int threads = 1, cores = 1;
  std::optional<double> bound_read_s = {};  // read_s of a `sequential` run of the same command
  std::string bound_file = {};              // where that stands
};

struct Overlap {
  double measured_s = 0, bound_s = 0, sum_s = 0, longest_s = 0;
  std::optional<double> hidden;  // 1: all of the shorter side hid; 0: none; absent when the sides can't tell
  std::string from = "self";     // or the file that bound_read_s came from
  double read_s = 0;             // this run's own
  double io_side_s = 0, cpu_side_s = 0;
};

// I/O side = bound_read_s, else read_s. CPU side = (prepack + compute + I/O threads' CPU) / min(threads, cores).
// bound = longest of the two; hidden = (sum - measured) / (sum - longest), absent when sum - longest < 0.05 sum.
Overlap compute_overlap(const OverlapInputs& inputs);

// The first run's share of a list of events: measured_s, read_s, prepack_s and compute_s of everything that started
// before the later of `first_output_ns` and the last publish of a first generation. Nothing when no read happened.
std::optional<OverlapInputs> first_run_inputs(std::span<const session::TaskEvent> events, uint64_t first_output_ns);

// read_s of another run's report (its overlap.read_s, else its work.read_s). Errors: environment for a file that can't
// be read, usage for one that isn't such a report.
Result<double> read_bound(const std::string& report_path);

}  // namespace ompipe::trace
