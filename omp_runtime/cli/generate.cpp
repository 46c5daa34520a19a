#include "ompipe/cli/generate.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "generate_data.h"
#include "generate_onnx.h"
#include "generate_spec.h"
#include "ompipe/io/atomic_file.h"
#include "ompipe/io/digest_list.h"

namespace ompipe::cli {
namespace {

constexpr const char* kDataName = "model.data";

struct Preset {
  std::string name;
  std::function<ModelSpec(int accuracy_level)> build;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{
      {"tiny-int4", tiny_int4},
      {"qwen-0.5b-int4", qwen_0_5b_int4},
      {"llama-1.1b-int4", llama_1_1b_int4},
      {"mlp-f32-1g", [](int) { return mlp_f32_1g(); }},
      {"bert-f32", [](int) { return bert_f32(); }},
  };
  return all;
}

Error wrong_usage(const std::string& subject, const std::string& reason) {
  return {.kind = ErrorKind::usage, .phase = "generate", .subject = subject, .reason = reason};
}

Result<ModelSpec> describe(const GenerateOptions& options) {
  if (options.accuracy_level != 0 && options.accuracy_level != 4) {
    return wrong_usage("--accuracy-level", "found " + std::to_string(options.accuracy_level) + ", expected 0 or 4");
  }
  std::string known;
  for (const Preset& preset : presets()) {
    if (preset.name == options.preset) return preset.build(options.accuracy_level);
    known += (known.empty() ? "" : ", ") + preset.name;
  }
  return wrong_usage(options.preset, "unknown preset, expected one of " + known);
}

Status make_directory(const std::string& directory) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed || !std::filesystem::is_directory(directory, failed)) {
    return Error{.phase = "generate",
                 .subject = "directory",
                 .reason = "cannot be made, or is not a directory",
                 .file = directory,
                 .errno_value = failed.value()};
  }
  return ok_status();
}

// One entry for each range of bytes; row-addressed ones with their slice hashes, so that rows can be checked alone.
std::string digest_list(const ModelSpec& model, const std::vector<PlacedWeight>& placed) {
  std::vector<io::DigestEntry> entries;
  for (size_t i = 0; i < placed.size(); ++i) {
    const WeightSpec& weight = model.weights[i];
    if (!weight.same_bytes_as.empty()) continue;
    const std::vector<io::Hash128> none;
    entries.push_back({weight.name, kDataName, placed[i].offset, placed[i].length, placed[i].digest,
                       weight.row_addressed ? placed[i].slices : none});
  }
  return io::format_digest_list(entries);
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Preset& preset : presets()) all.push_back(preset.name);
    return all;
  }();
  return names;
}

Status generate_model(const GenerateOptions& options) {
  Result<ModelSpec> model = describe(options);
  if (!model) return model.error();
  if (Status made = make_directory(options.directory); !made) return made;
  const auto path = [&](const char* name) { return (std::filesystem::path(options.directory) / name).string(); };

  io::FileOperations operations;
  Result<io::AtomicFile> data = io::AtomicFile::create(path(kDataName), operations);
  if (!data) return data.error();
  Result<std::vector<PlacedWeight>> placed = write_data(*model, options.seed, *data);
  if (!placed) return placed.error();
  const std::string digests = digest_list(*model, *placed);
  const std::string onnx = onnx_bytes(
      *model, *placed, kDataName, {{"ompipe.preset", options.preset}, {"ompipe.seed", std::to_string(options.seed)}});

  // The graph last: whoever sees it finds its data and digests.
  Result<io::FileIdentity> published = data->publish([&](const std::shared_ptr<const io::FileHandle>& written) {
    return written->check_range(0, data->size_bytes());
  });
  if (published) published = io::publish_bytes(path("model.digests"), std::as_bytes(std::span(digests)), operations);
  if (published) published = io::publish_bytes(path("model.onnx"), std::as_bytes(std::span(onnx)), operations);
  if (!published) return published.error();
  return ok_status();
}

}  // namespace ompipe::cli
