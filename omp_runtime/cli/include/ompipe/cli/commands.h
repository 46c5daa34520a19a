// The commands of `ompipe`, one function each, and the program around them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/cli/options.h"

namespace ompipe::cli {

// What a command may want to know of the process.
struct Process {
  std::vector<std::string> command;  // argv
  uint64_t start_ns = 0;             // CLOCK_MONOTONIC at the process's first own instruction
};

// Each prints its result on stdout. An error has printed nothing on stderr yet.
Status run_generate(const GenerateCommand& command);
Status run_inspect(const InspectCommand& command);
Status run_run(const RunCommand& command, const Process& process);
Status run_verify(const VerifyCommand& command);
Status run_topology(const TopologyCommand& command);

// contract.md, "Commands": 2 usage, 3 bad_model, 4 cannot_fit, 1 environment, 130 cancelled.
int exit_status(const Error& error);

// The whole program: parse, run, report. Returns the exit status.
int run_program(const Process& process);

}  // namespace ompipe::cli
