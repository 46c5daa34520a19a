#include "run_outputs.h"

#include <filesystem>
#include <set>

#include "ompipe/cli/tensor_file.h"
#include "ompipe/io/digest.h"

namespace ompipe::cli {

namespace {

// File names may have 255 bytes; the rest is for a number, the suffix, and the temporary's additions.
constexpr size_t kLongestName = 180;

std::string sanitised(const std::string& name) {
  std::string safe = name.substr(0, kLongestName);
  for (char& c : safe) {
    const bool allowed =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!allowed) c = '_';
  }
  return safe.empty() ? "_" : safe;
}

}  // namespace

std::string output_digest(const std::vector<exec::NamedTensor>& outputs) {
  io::DigestStream digest;
  for (const exec::NamedTensor& output : outputs) {
    const exec::Tensor& view = output.tensor.view;
    if (view.contiguous()) {
      digest.update({view.data, size_t(view.bytes())});
    } else {
      digest.update(dense_bytes(view));
    }
  }
  return io::format_digest(digest.finish());
}

std::vector<std::string> output_file_names(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  std::set<std::string> taken;
  for (const std::string& name : names) {
    const std::string safe = sanitised(name);
    std::string file = safe + ".npy";
    for (int number = 2; !taken.insert(file).second; ++number) file = safe + "_" + std::to_string(number) + ".npy";
    files.push_back(file);
  }
  return files;
}

Status write_outputs(const std::string& directory, const std::vector<exec::NamedTensor>& outputs) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) {
    return Error{.kind = ErrorKind::environment,
                 .phase = "output",
                 .subject = "--output",
                 .reason = "the directory can't be made",
                 .file = directory,
                 .errno_value = failure.value()};
  }
  std::vector<std::string> names;
  names.reserve(outputs.size());
  for (const exec::NamedTensor& output : outputs) names.push_back(output.name);
  const std::vector<std::string> files = output_file_names(names);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (Status status = write_npy(directory + "/" + files[i], outputs[i].tensor.view); !status) return status;
  }
  return ok_status();
}

}  // namespace ompipe::cli
