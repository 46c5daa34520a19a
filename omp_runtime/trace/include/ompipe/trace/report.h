// The report of a run (contract.md, "Report"): plain data, its JSON, and a short table for people.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ompipe/session/handle.h"
#include "ompipe/session/runtime.h"
#include "ompipe/session/session.h"
#include "ompipe/trace/overlap.h"
#include "ompipe/trace/recorder.h"

namespace ompipe::trace {

inline constexpr int kReportSchema = 1;

struct ModelFigures {
  std::string path;
  uint64_t bytes = 0;  // of the .onnx file
  int64_t nodes = 0, initializers = 0, payloads = 0;
  uint64_t source_bytes = 0, packed_bytes = 0;
};

// Where nodes run, if there is a device.
struct DevicePlacement {
  int nodes = 0;  // on it
  uint64_t weight_bytes = 0;
  std::vector<std::pair<std::string, std::string>> refused;  // nodes that were asked for there, and why they are not
};

struct AvoidedBytes {
  uint64_t dead = 0, superseded = 0, companion = 0, branch = 0;
};

// One RunAsync. `repeat` counts --runs, `invocation` the concurrent ones of a repeat, `index` all of them.
struct RunRecord {
  int64_t index = 0, repeat = 0, invocation = 0;
  bool hot = false;
  double seconds = 0;
  std::vector<int64_t> tokens;
  std::string output_digest;
  uint64_t heap_allocations = 0;  // of the whole process, from the call to the handle's end
};

// What the operating system counted for this process.
struct ProcessFigures {
  uint64_t minor_faults = 0, major_faults = 0;
  uint64_t peak_rss_bytes = 0;
  uint64_t private_bytes = 0;  // anonymous memory now; the report keeps the largest that was seen
};

// Everything a report states. Absent: did not happen, or was not measured.
struct Report {
  std::vector<std::string> command;
  std::string version, git, compiler, isa, mode, verify;
  std::optional<uint64_t> seed;  // of --fill random
  session::RuntimeFigures runtime;
  uint64_t start_ns = 0;  // the process's first own instruction; milestones count from here
  ModelFigures model;
  std::array<std::optional<uint64_t>, session::kMilestones> milestone_ns;
  std::array<KindSum, kTaskKinds> sums;
  std::vector<double> ready_queue_s;   // of each CPU task: from when it could have started to when it did
  double submission_s = 0;             // of the first run
  std::optional<double> cancel_s;      // from the cancel to the terminal handle
  std::vector<double> segment_wait_s;  // of the first run
  std::optional<Overlap> overlap;
  uint64_t resolve_read_bytes = 0;
  AvoidedBytes avoided;
  DevicePlacement device;
  ProcessFigures process;
  std::vector<session::ObjectFigures> objects;
  std::vector<RunRecord> runs;
  uint64_t dropped_events = 0;
  int status_code = 0;
  session::Diagnostics diagnostics;  // of the handle that failed, else of the last one
  std::string error;                 // its message; empty: none
};

// Fills what the recorder knows: milestones, sums, ready-queue waits, dropped events.
void add_recorded(Report& report, const Recorder& recorder);

// getrusage and /proc/self/status.
ProcessFigures process_figures();

// The value at quantile q (0..1) of unsorted samples, by nearest rank; 0 for none.
double quantile(std::span<const double> samples, double q);

std::string report_json(const Report& report);

// Milestones in order of time, and one line for the overlap; ends with a newline.
std::string milestone_table(const Report& report);

}  // namespace ompipe::trace
