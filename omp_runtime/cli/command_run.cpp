#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cold_start.h"
#include "ompipe/cli/commands.h"
#include "ompipe/cli/small_file.h"
#include "ompipe/trace/perfetto.h"
#include "run_driver.h"
#include "run_outputs.h"
#include "run_report.h"

namespace ompipe::cli {

namespace {

// What is asked of the file system at the end is tried at the beginning, so that a long run doesn't end in a refusal.
Status check_destinations(const RunCommand& command) {
  for (const std::string& path : {command.report, command.trace}) {
    if (path.empty()) continue;
    if (Status status = check_writable(path); !status) return status;
  }
  return ok_status();
}

trace::Report finish_report(const RunCommand& command, const Process& process, RunDriver& driver,
                            std::optional<double> bound_read_s, const Status& status) {
  trace::Report report = begin_report(command, process);
  const RunResults& results = driver.results();
  if (driver.runtime()) report.runtime = driver.runtime()->figures();
  if (driver.session()) add_session(report, *driver.session());
  trace::add_recorded(report, driver.recorder());
  report.process = trace::process_figures();
  report.process.private_bytes = std::max(report.process.private_bytes, results.private_bytes);
  report.submission_s = results.first.submission_s;
  report.segment_wait_s = results.first.segment_wait_s;
  report.cancel_s = driver.cancel_s();
  report.runs = results.records;
  report.diagnostics = results.last;
  if (results.first_io_cpu_s)
    add_overlap(report, driver.recorder(), *results.first_io_cpu_s, bound_read_s, command.bound_from);
  if (!status) {
    report.status_code = exit_status(status.error());
    report.error = status.error().message();
  }
  return report;
}

void print_results(const RunCommand& command, const RunResults& results, const trace::Report& report) {
  bool decoder = false;
  for (const std::vector<int64_t>& tokens : results.tokens) {
    if (tokens.empty()) continue;
    decoder = true;
    std::fputs(fmt::format("tokens: {}\n", fmt::join(tokens, " ")).c_str(), stdout);
  }
  for (const exec::NamedTensor& output : results.outputs) {
    if (decoder) break;
    std::fputs(fmt::format("output: {} {}{} {}\n", output.name, model::dtype_name(output.tensor.view.dtype),
                           exec::shape_text(output.tensor.view.shape()), output_digest({output}))
                   .c_str(),
               stdout);
  }
  if (!command.output.quiet) std::fputs(trace::milestone_table(report).c_str(), stdout);
}

Status write_files(const RunCommand& command, const RunDriver& driver, const trace::Report& report) {
  if (!command.trace.empty()) {
    const std::string text = trace::trace_json(driver.recorder().events(), report.milestone_ns, report.start_ns);
    if (Status status = write_small_file(command.trace, text); !status) return status;
  }
  if (command.report.empty()) return ok_status();
  return write_small_file(command.report, trace::report_json(report));
}

}  // namespace

Status run_run(const RunCommand& command, const Process& process) {
  if (Status status = check_destinations(command); !status) return status;
  std::optional<double> bound_read_s;
  if (!command.bound_from.empty()) {
    const Result<double> bound = trace::read_bound(command.bound_from);
    if (!bound) return bound.error();
    bound_read_s = *bound;
  }
  if (command.drop_page_cache && !command.page_cache_dropped) return restart_cold(command.model, process);

  RunDriver driver(command);
  Status status = driver.run();
  if (status && !command.output_directory.empty())
    status = write_outputs(command.output_directory, driver.results().outputs);
  const trace::Report report = finish_report(command, process, driver, bound_read_s, status);
  const Status written = write_files(command, driver, report);
  if (status) status = written;
  if (command.output.json) {
    std::fputs(trace::report_json(report).c_str(), stdout);
  } else if (status) {
    print_results(command, driver.results(), report);
  }
  return status;
}

}  // namespace ompipe::cli
