// What the command line asks for: one plain struct a command, and the function that reads them from its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/cli/generate.h"
#include "ompipe/device/emulated.h"
#include "ompipe/session/options.h"

namespace ompipe::cli {

struct Output {
  bool json = false;
  bool quiet = false;
};

struct GenerateCommand {
  GenerateOptions options;
  bool quiet = false;
};

// What a run is made of; `inspect --plan` uses the part that the plan's accounting depends on.
struct RunChoices {
  session::RuntimeOptions runtime;
  session::SessionOptions session;
  bool device = false;                                // --device emulated
  device::EmulatedOptions emulated;                   // its figures
  std::vector<std::pair<std::string, int64_t>> dims;  // --dim NAME=N
  std::vector<int64_t> prompt;                        // --prompt
  std::optional<int64_t> prompt_length;               // --prompt-length: ids 1, 2, 3, ... below the vocabulary's size
  std::optional<int64_t> generate;                    // --generate: tokens
};

struct InspectCommand {
  std::string model;
  bool plan = false, manifest = false, dot = false;
  RunChoices choices;
  Output output;
};

// --fill: inputs that no --input gives.
enum class FillMode : uint8_t { none, zeros, random };
struct FillChoice {
  FillMode mode = FillMode::none;
  uint64_t seed = 0;
};

struct RunCommand {
  std::string model;
  RunChoices choices;
  std::vector<std::pair<std::string, std::string>> inputs;  // --input NAME=FILE
  FillChoice fill;
  std::string output_directory;
  int64_t runs = 1, concurrency = 1;
  bool drop_page_cache = false;
  bool page_cache_dropped = false;  // by the process that was this one before it started itself again
  std::string bound_from, report, trace;
  Output output;
};

struct VerifyCommand {
  std::string model;
  std::string digests;
  Output output;
};

struct TopologyCommand {
  std::string placement = "compact";
  std::string xml, synthetic;
  int threads = 0, io_threads = 2;
  Output output;
};

// A text to print on stdout with status 0: help, or the version.
struct PrintText {
  std::string text;
};

using Command = std::variant<PrintText, GenerateCommand, InspectCommand, RunCommand, VerifyCommand, TopologyCommand>;

// Reads the arguments after the program's name. Errors: usage, for whatever is unknown, malformed, or not built yet.
Result<Command> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace ompipe::cli
