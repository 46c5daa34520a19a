#include "run_report.h"

#include <sched.h>

#include "cold_start.h"
#include "ompipe/cli/version.h"

namespace ompipe::cli {

namespace {

const char* mode_name(session::Mode mode) {
  switch (mode) {
    case session::Mode::streaming:
      return "streaming";
    case session::Mode::eager:
      return "eager";
    case session::Mode::on_demand:
      return "on-demand";
  }
  return "";
}

const char* verify_name(session::Verify verify) {
  switch (verify) {
    case session::Verify::once:
      return "once";
    case session::Verify::always:
      return "always";
    case session::Verify::never:
      return "never";
  }
  return "";
}

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  return CPU_COUNT(&mask);
}

}  // namespace

trace::Report begin_report(const RunCommand& command, const Process& process) {
  trace::Report report;
  report.command = given_arguments(process);
  report.version = version();
  report.git = git_commit();
  report.compiler = compiler();
  report.isa = kernels::isa_name(command.choices.session.isa.value_or(kernels::best_isa()));
  report.mode = mode_name(command.choices.session.mode);
  report.verify = verify_name(command.choices.session.verify);
  if (command.fill.mode == FillMode::random) report.seed = command.fill.seed;
  report.start_ns = process.start_ns;
  report.model.path = command.model;
  return report;
}

void add_session(trace::Report& report, const session::RuntimeSession& session) {
  const plan::PreparedExecutionPlan& plan = session.plan();
  const model::ResolvedModel& model = *plan.model;
  report.model = {.path = report.model.path,
                  .bytes = model.metadata().bytes,
                  .nodes = model.metadata().nodes,
                  .initializers = model.metadata().initializers,
                  .payloads = int64_t(model.payloads().size()),
                  .source_bytes = plan.source_bytes,
                  .packed_bytes = plan.packed_bytes};
  report.resolve_read_bytes = model.resolve_read_bytes();
  report.avoided = {.dead = model.avoided_bytes(model::AvoidedReason::dead),
                    .superseded = model.avoided_bytes(model::AvoidedReason::superseded),
                    .companion = model.avoided_bytes(model::AvoidedReason::companion),
                    .branch = session.avoided_branch_bytes()};
  report.objects = session.objects();
}

void add_overlap(trace::Report& report, const trace::Recorder& recorder, double io_cpu_s,
                 std::optional<double> bound_read_s, const std::string& bound_file) {
  const auto first_output = recorder.milestone_ns(session::Milestone::first_output);
  if (!first_output) return;
  std::optional<trace::OverlapInputs> inputs = trace::first_run_inputs(recorder.events(), *first_output);
  if (!inputs) return;
  inputs->io_cpu_s = io_cpu_s;
  inputs->threads = report.runtime.threads;
  inputs->cores = usable_cores();
  inputs->bound_read_s = bound_read_s;
  inputs->bound_file = bound_file;
  report.overlap = trace::compute_overlap(*inputs);
}

}  // namespace ompipe::cli
