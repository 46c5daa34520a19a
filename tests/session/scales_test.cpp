// Weights whose scales turn out to be float16 or not: how sessions pack them, and that outputs don't show it.
#include <doctest/doctest.h>

#include <algorithm>

#include "../model/onnx_builder.h"
#include "rig.h"

namespace ompipe::session::testing {
namespace {

using model::DType;
using test::int_attr;

constexpr int64_t kK = 512, kN = 8200, kBlocks = kK / 32, kRows = 2;  // 2 MiB and a bit of 4-bit elements
constexpr uint64_t kChunkBytes = 1u << 20;

std::string noise(int64_t bytes, uint32_t random) {
  std::string result;
  for (int64_t i = 0; i < bytes; ++i) {
    random = random * 1664525 + 1013904223;  // Numerical Recipes' generator
    result.push_back(char(random >> 24));
  }
  return result;
}

float scale(int64_t i) { return float(i * 7 % 2047 - 1000) / 65536; }

// Each a float16; the last one, of the last row's last block, isn't if `inexact`.
std::string scales(bool inexact) {
  Floats values;
  for (int64_t i = 0; i < kN * kBlocks; ++i) values.push_back(scale(i));
  if (inexact) values.back() = 0.1F;
  return test::f32_bytes(values);
}

test::Tensor external(const std::string& name, std::vector<int64_t> dims) {
  return {.name = name,
          .dtype = DType::u8,
          .dims = std::move(dims),
          .form = test::Form::external,
          .external = {{"location", "weights.bin"}, {"offset", "0"}, {"length", std::to_string(kN * kK / 2)}}};
}

const std::string& elements() {
  static const std::string bytes = noise(kN * kK / 2, 1);
  return bytes;
}

// Products of "x" at level 0 with zero points and at level 4 without; the latter's bytes are a table, too.
std::string write_model(const test::TempFolder& folder, bool inexact) {
  folder.write("weights.bin", elements());
  test::ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"m", std::to_string(kK)}}, {"ids", DType::i64, {"n"}}};
  spec.initializers = {
      {.name = "b", .dtype = DType::u8, .dims = {kN, kBlocks, 16}, .raw = noise(kN * kK / 2, 2)},
      {.name = "zeros", .dtype = DType::u8, .dims = {kN, kBlocks / 2}, .raw = noise(kN * kBlocks / 2, 3)},
      external("head", {kN, kBlocks, 16}),
      external("table", {kN, kK / 2}),
      {.name = "scales", .dims = {kN, kBlocks}, .raw = scales(inexact)}};
  const auto product = [&](std::vector<std::string> inputs, const std::string& output, int level) {
    spec.nodes.push_back({"MatMulNBits",
                          std::move(inputs),
                          {output},
                          {int_attr("K", kK), int_attr("N", kN), int_attr("bits", 4), int_attr("block_size", 32),
                           int_attr("accuracy_level", level)},
                          "com.microsoft",
                          output});
  };
  product({"x", "b", "scales", "zeros"}, "level0", 0);
  product({"x", "head", "scales"}, "level4", 4);
  spec.nodes.push_back(
      {"GatherBlockQuantized", {"table", "ids", "scales"}, {"rows"}, {int_attr("block_size", 32)}, "com.microsoft"});
  for (const char* name : {"level0", "level4", "rows"}) spec.outputs.push_back({name, DType::f32, {}, false});
  return folder.write("model.onnx", test::model_bytes(spec));
}

template <class T>
exec::NamedTensor input(const std::string& name, DType dtype, std::vector<int64_t> dims, std::vector<T> values) {
  auto held = std::make_shared<std::vector<T>>(std::move(values));
  auto* const bytes = reinterpret_cast<std::byte*>(held->data());
  return {name, {exec::make_tensor(dtype, dims, bytes), std::move(held)}};
}

const Tokens kIds{3, 0, kN - 2, 4097};

// The last block of "x" is 0 and the last row isn't gathered, so that the inexact scale doesn't show.
exec::RuntimeContext inputs() {
  Floats x(size_t(kRows * kK));
  for (int64_t i = 0; i < kRows * kK; ++i) x[size_t(i)] = i % kK < kK - 32 ? float(i * 37 % 101 - 50) / 64 : 0.0F;
  exec::RuntimeContext context;
  context.inputs = {input("x", DType::f32, {kRows, kK}, std::move(x)),
                    input("ids", DType::i64, {int64_t(kIds.size())}, kIds)};
  return context;
}

std::vector<Floats> outputs_of(RuntimeSession& session) {
  exec::RuntimeContext context = inputs();
  const Status status = session.Run(context);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  std::vector<Floats> outputs;
  for (const exec::NamedTensor& output : context.outputs) {
    const float* const data = output.tensor.view.read<float>();
    outputs.emplace_back(data, data + output.tensor.view.elements());
  }
  return outputs;
}

// How many objects have a layout with these scales.
int64_t packed_with(const RuntimeSession& session, const std::string& scales) {
  const std::vector<ObjectFigures> objects = session.objects();
  return std::count_if(objects.begin(), objects.end(), [&](const ObjectFigures& object) {
    return object.layout.find("/" + scales + "/") != std::string::npos;
  });
}

const std::vector<Floats>& expected() {
  static std::vector<Floats> outputs;
  if (outputs.empty()) {
    const test::TempFolder folder;
    Rig rig({.scheduler = "sequential"});
    RuntimeSession& session = rig.open({}, write_model(folder, true));
    outputs = outputs_of(session);
    REQUIRE(packed_with(session, "s32") == 2);
  }
  return outputs;
}

}  // namespace

TEST_SUITE_BEGIN("scales");

TEST_CASE("what is gathered with wide scales are the table's elements") {
  const Floats& rows = expected().at(2);
  REQUIRE(rows.size() == kIds.size() * size_t(kK));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t at = kIds[i / size_t(kK)] * kK + int64_t(i) % kK;
    const int q = uint8_t(elements()[size_t(at / 2)]) >> (at % 2 * 4) & 15;
    REQUIRE(rows[i] == float(q - 8) * scale(at / 32));
  }
}

TEST_CASE("scales are packed as float16 where all are, else wide: the same bits, also after they were loaded again") {
  for (const bool inexact : {false, true}) {
    const test::TempFolder folder;
    const std::string path = write_model(folder, inexact);
    for (const char* scheduler : {"sequential", "omp-tasks"}) {
      CAPTURE(inexact);
      CAPTURE(scheduler);
      Rig rig({.scheduler = scheduler, .threads = 4});
      RuntimeSession& session = rig.open({.chunk_bytes = kChunkBytes}, path);
      REQUIRE(session.plan().objects[0].chunks.size() == 3);
      for (int round = 0; round < 3; ++round) {
        CHECK(packed_with(session, "s32or16") == 2);
        CHECK((outputs_of(session) == expected()));
        CHECK(packed_with(session, "s32to16") == (inexact ? 0 : 2));
        CHECK(packed_with(session, "s32") == (inexact ? 2 : 0));
        CHECK((outputs_of(session) == expected()));
        REQUIRE(session.EvictAll().ok());
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
