#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ompipe/cli/commands.h"
#include "ompipe/io/posix_device.h"
#include "progress.h"
#include "verify_payloads.h"

namespace ompipe::cli {

namespace {

using Json = nlohmann::ordered_json;
using Counts = std::array<size_t, 3>;  // by Verdict

const char* verdict_name(Verdict verdict) {
  static constexpr const char* kNames[] = {"right", "wrong", "unknown"};
  return kNames[size_t(verdict)];
}

std::string results_json(const std::vector<Checked>& results, const Counts& counts) {
  Json payloads = Json::array();
  for (const Checked& checked : results) {
    payloads.push_back({{"name", checked.name},
                        {"file", checked.file},
                        {"offset", checked.offset},
                        {"length", checked.length},
                        {"verdict", verdict_name(checked.verdict)},
                        {"expected", checked.expected},
                        {"found", checked.found}});
  }
  const Json json = {
      {"right", counts[0]}, {"wrong", counts[1]}, {"unknown", counts[2]}, {"payloads", std::move(payloads)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print_table(const std::vector<Checked>& results, const Counts& counts, bool quiet) {
  for (const Checked& checked : results) {
    if (quiet && checked.verdict == Verdict::right) continue;
    std::fputs(fmt::format("{:<8}{:>12} {}\n", verdict_name(checked.verdict), checked.length, checked.name).c_str(),
               stdout);
  }
  std::fputs(fmt::format("{} right, {} wrong, {} without a digest\n", counts[0], counts[1], counts[2]).c_str(), stdout);
}

Error mismatch(const Checked& checked, size_t count) {
  return {.kind = ErrorKind::bad_model,
          .phase = "digest",
          .subject = checked.name,
          .reason = "found " + checked.found + ", expected " + checked.expected +
                    (count > 1 ? " (the first of " + std::to_string(count) + ")" : std::string()),
          .file = checked.file,
          .offset = checked.offset,
          .length = checked.length};
}

}  // namespace

Status run_verify(const VerifyCommand& command) {
  const Result<model::ModelGraph> graph = model::read_model(command.model, {.digests_path = command.digests});
  if (!graph) return graph.error();
  io::PosixDevice device;
  const Result<std::vector<Checked>> results = [&] {
    const Progress progress(command.output.quiet);
    progress.show("reading");
    return verify_payloads(*graph, device);
  }();
  if (!results) return results.error();
  Counts counts = {};
  const Checked* first_wrong = nullptr;
  for (const Checked& checked : *results) {
    ++counts[size_t(checked.verdict)];
    if (checked.verdict == Verdict::wrong && !first_wrong) first_wrong = &checked;
  }
  if (command.output.json) {
    std::fputs(results_json(*results, counts).c_str(), stdout);
  } else {
    print_table(*results, counts, command.output.quiet);
  }
  if (first_wrong) return mismatch(*first_wrong, counts[size_t(Verdict::wrong)]);
  return ok_status();
}

}  // namespace ompipe::cli
