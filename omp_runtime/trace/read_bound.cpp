#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ompipe/trace/overlap.h"

namespace ompipe::trace {

Result<double> read_bound(const std::string& report_path) {
  std::ifstream file(report_path);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    return Error{.kind = ErrorKind::environment,
                 .phase = "report",
                 .subject = "--bound-from",
                 .reason = "can't be read, or is empty",
                 .file = report_path,
                 .errno_value = file.is_open() ? 0 : errno};
  }
  const nlohmann::json report = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  for (const char* part : {"overlap", "work"}) {
    if (!report.is_object() || !report.contains(part) || !report[part].is_object()) continue;
    const nlohmann::json& found = report[part];
    if (found.contains("read_s") && found["read_s"].is_number()) return found["read_s"].get<double>();
  }
  return Error{.kind = ErrorKind::usage,
               .phase = "report",
               .subject = "--bound-from",
               .reason = "is no report with work.read_s",
               .file = report_path};
}

}  // namespace ompipe::trace
