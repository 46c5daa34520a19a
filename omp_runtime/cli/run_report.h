// Gathers a report of what a runtime, a session and a recorder know.
#pragma once

#include "ompipe/cli/commands.h"
#include "ompipe/session/session.h"
#include "ompipe/trace/report.h"

namespace ompipe::cli {

// The part that the command line knows before anything runs.
trace::Report begin_report(const RunCommand& command, const Process& process);

// The part that a planned model gives.
void add_session(trace::Report& report, const session::RuntimeSession& session);

// `overlap` of the first run, if it read something and gave an output. `bound_read_s` comes from --bound-from.
void add_overlap(trace::Report& report, const trace::Recorder& recorder, double io_cpu_s,
                 std::optional<double> bound_read_s, const std::string& bound_file);

}  // namespace ompipe::cli
