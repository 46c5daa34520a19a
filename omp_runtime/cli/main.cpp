#include "ompipe/cli/commands.h"
#include "ompipe/session/observer.h"

namespace {

// The report's milestones count from here. 101 is the first priority that is not the implementation's own.
struct StartTime {
  uint64_t ns = ompipe::session::now_ns();
};
__attribute__((init_priority(101))) StartTime process_start;

}  // namespace

int main(int argc, char** argv) {
  return ompipe::cli::run_program({.command = {argv, argv + argc}, .start_ns = process_start.ns});
}
