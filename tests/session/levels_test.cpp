// MatMulNBits nodes that share one prepared weight at accuracy levels of their own: on the CPU, on the device, and with
// a table over the same bytes.
#include <doctest/doctest.h>

#include "../model/onnx_builder.h"
#include "ompipe/device/emulated.h"
#include "rig.h"

namespace ompipe::session::testing {
namespace {

using model::DType;
using plan::DevicePack;
using test::int_attr;

constexpr int64_t kK = 96, kN = 1000, kBlocks = kK / 32;
const Tokens kIds{3, 0, kN - 1};

test::Tensor elements(const std::string& name, std::vector<int64_t> dims) {
  return {.name = name,
          .dtype = DType::u8,
          .dims = std::move(dims),
          .form = test::Form::external,
          .external = {{"location", "weights.bin"}, {"offset", "0"}, {"length", std::to_string(kN * kK / 2)}}};
}

// One product of "x" for each level, and rows of the same bytes.
std::string write_model(const test::TempFolder& folder, const std::vector<int>& levels) {
  std::string bytes;
  for (int64_t i = 0; i < kN * kK / 2; ++i) bytes.push_back(char(i * 37 + i / 16));
  folder.write("weights.bin", bytes);
  Floats scales;
  for (int64_t i = 0; i < kN * kBlocks; ++i) scales.push_back(float(i * 7 % 2047 - 1000) / 65536);
  test::ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"m", std::to_string(kK)}}, {"ids", DType::i64, {"n"}}};
  spec.initializers = {elements("b", {kN, kBlocks, 16}),
                       elements("table", {kN, kK / 2}),
                       {.name = "scales", .dims = {kN, kBlocks}, .raw = test::f32_bytes(scales)}};
  for (size_t i = 0; i < levels.size(); ++i) {
    const std::string name = "y" + std::to_string(i);
    spec.nodes.push_back({"MatMulNBits",
                          {"x", "b", "scales"},
                          {name},
                          {int_attr("K", kK), int_attr("N", kN), int_attr("bits", 4), int_attr("block_size", 32),
                           int_attr("accuracy_level", levels[i])},
                          "com.microsoft",
                          name});
    spec.outputs.push_back({name, DType::f32, {}, false});
  }
  spec.nodes.push_back(
      {"GatherBlockQuantized", {"table", "ids", "scales"}, {"rows"}, {int_attr("block_size", 32)}, "com.microsoft"});
  spec.outputs.push_back({"rows", DType::f32, {}, false});
  return folder.write("model.onnx", test::model_bytes(spec));
}

std::vector<Floats> outputs_of(RuntimeSession& session, int64_t rows) {
  Floats x;
  for (int64_t i = 0; i < rows * kK; ++i) x.push_back(float(i * 37 % 101 - 50) / 7);
  exec::RuntimeContext context;
  context.inputs = {feed("x", DType::f32, {rows, kK}, std::move(x)),
                    feed("ids", DType::i64, {int64_t(kIds.size())}, kIds)};
  const Status status = session.Run(context);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  return all_outputs(context);
}

// The product and the gathered rows of a model of one level, on the CPU.
std::vector<Floats> alone(int level, int64_t rows) {
  const test::TempFolder folder;
  Rig rig({.scheduler = "sequential"});
  return outputs_of(rig.open({}, write_model(folder, {level})), rows);
}

// Each product has the bits that it has alone, also in the hot runs that follow, and the rows are the table's.
void check(RuntimeSession& session, const std::vector<int>& levels) {
  for (const int64_t rows : {1, 70, 70, 2}) {
    CAPTURE(rows);
    const std::vector<Floats> outputs = outputs_of(session, rows);
    REQUIRE(outputs.size() == levels.size() + 1);
    for (size_t i = 0; i < levels.size(); ++i) {
      CAPTURE(i);
      CHECK((outputs[i] == alone(levels[i], rows)[0]));
    }
    CHECK((outputs.back() == alone(0, rows)[1]));
  }
}

}  // namespace

TEST_SUITE_BEGIN("levels");

TEST_CASE("products of one weight keep their own levels on the CPU, whichever stands first") {
  REQUIRE(alone(0, 2)[0] != alone(4, 2)[0]);
  for (const std::vector<int>& levels : {std::vector<int>{0, 4}, {4, 0}}) {
    const test::TempFolder folder;
    const std::string path = write_model(folder, levels);
    for (const char* const scheduler : {"sequential", "omp-tasks"}) {
      CAPTURE(scheduler);
      Rig rig({.scheduler = scheduler, .threads = 2});
      RuntimeSession& session = rig.open({}, path);
      REQUIRE(session.plan().actions.size() == 3);
      CHECK(session.plan().actions[0].inputs[1].index == session.plan().actions[1].inputs[1].index);
      check(session, levels);
    }
  }
}

TEST_CASE("products of one weight keep their own levels on the device, or one there and one on the CPU") {
  for (const std::vector<int>& levels : {std::vector<int>{0, 4}, {4, 0}}) {
    const test::TempFolder folder;
    const std::string path = write_model(folder, levels);
    for (const DevicePack pack : {DevicePack::on_cpu, DevicePack::on_device}) {
      for (const char* const nodes : {"y*", "y0", "y1"}) {
        CAPTURE(int(pack));
        CAPTURE(nodes);
        device::EmulatedBackend backend({});
        Rig rig({.threads = 2, .backend = &backend});
        RuntimeSession& session = rig.open({.device = {.nodes = {nodes}, .pack = pack}}, path);
        REQUIRE(session.plan().device_actions == (std::string(nodes) == "y*" ? 2 : 1));
        check(session, levels);
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
