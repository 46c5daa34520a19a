#include "bench_models.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "generate_data.h"
#include "generate_onnx.h"
#include "ompipe/cli/generate.h"

namespace ompipe::bench {
namespace {

namespace fs = std::filesystem;

cli::ModelSpec one_node() {
  cli::ModelSpec spec;
  spec.name = "one-node";
  spec.inputs = {{"x", model::DType::f32, {cli::fixed(1)}}};
  spec.outputs = {{"y", model::DType::f32, {cli::fixed(1)}}};
  spec.node("Neg", {"x"}, "y");
  return spec;
}

cli::ModelSpec chain(int products) {
  constexpr int64_t kWidth = 16;
  cli::ModelSpec spec;
  spec.name = "chain";
  spec.inputs = {{"x", model::DType::f32, {cli::fixed(1), cli::fixed(kWidth)}}};
  spec.outputs = {{"y", model::DType::f32, {cli::fixed(1), cli::fixed(kWidth)}}};
  std::string value = "x";
  for (int i = 0; i < products; ++i) {
    const std::string weight = spec.weight({.name = fmt::format("w{}", i),
                                            .dtype = model::DType::f32,
                                            .dims = {kWidth, kWidth},
                                            .fill = {cli::FillKind::uniform, -0.25, 0.25}});
    value = spec.node("MatMul", {value, weight}, i + 1 < products ? fmt::format("v{}", i) : "y");
  }
  return spec;
}

void write(const cli::ModelSpec& spec, const std::string& folder) {
  io::FileOperations operations;
  io::AtomicFile data = must(io::AtomicFile::create(folder + "/model.data", operations));
  const std::vector<cli::PlacedWeight> placed = must(cli::write_data(spec, 1, data));
  must(data.publish([](const auto&) { return ok_status(); }));
  std::ofstream(folder + "/model.onnx", std::ios::binary) << cli::onnx_bytes(spec, placed, "model.data", {});
}

}  // namespace

Models::Models() {
  root_ = (fs::temp_directory_path() / "ompipe_bench_XXXXXX").string();
  if (!mkdtemp(root_.data())) must(Error{ErrorKind::environment, "bench", root_, "can't be made"});
}

Models::~Models() { fs::remove_all(root_); }

std::string Models::path(const std::string& model) {
  const std::string folder = root_ + "/" + model, file = folder + "/model.onnx";
  if (fs::exists(file)) return file;
  const std::string chain_prefix = "chain-";
  if (model == "one-node" || model.starts_with(chain_prefix)) {
    fs::create_directories(folder);
    write(model == "one-node" ? one_node() : chain(std::stoi(model.substr(chain_prefix.size()))), folder);
  } else {
    must(cli::generate_model({.preset = model, .directory = folder}));
  }
  return file;
}

Models& models() {
  static Models made;
  return made;
}

}  // namespace ompipe::bench
