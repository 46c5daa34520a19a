#include <unistd.h>

#include <cstdio>

#include "ompipe/cli/commands.h"

namespace ompipe::cli {

namespace {

Status print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ok_status();
}

struct Execute {
  const Process& process;
  Status operator()(const PrintText& command) const { return print(command.text); }
  Status operator()(const GenerateCommand& command) const { return run_generate(command); }
  Status operator()(const InspectCommand& command) const { return run_inspect(command); }
  Status operator()(const RunCommand& command) const { return run_run(command, process); }
  Status operator()(const VerifyCommand& command) const { return run_verify(command); }
  Status operator()(const TopologyCommand& command) const { return run_topology(command); }
};

int report_failure(const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "ompipe: %s\n", error.message().c_str());
  return exit_status(error);
}

}  // namespace

int exit_status(const Error& error) {
  switch (error.kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::bad_model:
      return 3;
    case ErrorKind::cannot_fit:
      return 4;
    case ErrorKind::environment:
    case ErrorKind::busy:
      return 1;
    case ErrorKind::cancelled:
      return 130;
  }
  return 1;
}

int run_program(const Process& process) {
  const Result<Command> command =
      parse_command_line({process.command.begin() + (process.command.empty() ? 0 : 1), process.command.end()});
  if (!command) return report_failure(command.error());
  const Status status = std::visit(Execute{process}, *command);
  if (!status) return report_failure(status.error());
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    return report_failure(
        {.kind = ErrorKind::environment, .phase = "print", .subject = "stdout", .reason = "write failed"});
  }
  return 0;
}

}  // namespace ompipe::cli
