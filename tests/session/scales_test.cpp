// Weights whose scales turn out to be float16 or not: how sessions pack them, and that outputs don't show it.
#include <doctest/doctest.h>

#include <algorithm>

#include "../model/onnx_builder.h"
#include "rig.h"

namespace ompipe::session::testing {
namespace {

using model::DType;
using test::int_attr;

constexpr int64_t kK = 512, kN = 12296, kBlocks = kK / 32, kRows = 2;  // 3 MiB and a bit of 4-bit elements
constexpr uint64_t kMiB = 1u << 20, kElementBytes = kN * kK / 2, kScaleBytes = kN * kBlocks * sizeof(float);

// Smaller weights, one chunk each.
struct Format {
  int64_t bits, block;
  int level;
};
constexpr Format kFormats[] = {{2, 64, 4}, {2, 16, 0}, {8, 16, 4}, {8, 128, 0}};
constexpr int64_t kFormatN = 40, kWeights = 2 + int64_t(std::size(kFormats));

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
std::string scales(int64_t count, bool inexact) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) values.push_back(scale(i));
  if (inexact) values.back() = 0.1F;
  return test::f32_bytes(values);
}

test::Tensor external(const std::string& name, std::vector<int64_t> dims) {
  return {.name = name,
          .dtype = DType::u8,
          .dims = std::move(dims),
          .form = test::Form::external,
          .external = {{"location", "weights.bin"}, {"offset", "0"}, {"length", std::to_string(kElementBytes)}}};
}

const std::string& elements() {
  static const std::string bytes = noise(kElementBytes, 1);
  return bytes;
}

// Rows of a table; products of "x" at level 0 with zero points, in other formats, and at level 4 by the table's bytes.
// There are too many weights for one segment, so the first reads rows, and the last the whole table for the head.
std::string write_model(const test::TempFolder& folder, bool inexact) {
  folder.write("weights.bin", elements());
  test::ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"m", std::to_string(kK)}}, {"ids", DType::i64, {"n"}}};
  spec.initializers = {
      {.name = "b", .dtype = DType::u8, .dims = {kN, kBlocks, 16}, .raw = noise(kElementBytes, 2)},
      {.name = "zeros", .dtype = DType::u8, .dims = {kN, kBlocks / 2}, .raw = noise(kN * kBlocks / 2, 3)},
      external("head", {kN, kBlocks, 16}),
      external("table", {kN, kK / 2}),
      {.name = "scales", .dims = {kN, kBlocks}, .raw = scales(kN * kBlocks, inexact)}};
  const auto output = [&](test::NodeSpec node) {
    spec.outputs.push_back({node.outputs[0], DType::f32, {}, false});
    spec.nodes.push_back(std::move(node));
  };
  const auto product = [&](std::vector<std::string> inputs, const std::string& name, int64_t n, const Format& format) {
    output({"MatMulNBits",
            std::move(inputs),
            {name},
            {int_attr("K", kK), int_attr("N", n), int_attr("bits", format.bits), int_attr("block_size", format.block),
             int_attr("accuracy_level", format.level)},
            "com.microsoft",
            name});
  };
  output({"GatherBlockQuantized", {"table", "ids", "scales"}, {"rows"}, {int_attr("block_size", 32)}, "com.microsoft"});
  product({"x", "b", "scales", "zeros"}, "level0", kN, {4, 32, 0});
  for (const Format& format : kFormats) {
    const std::string name = "bits" + std::to_string(format.bits) + "block" + std::to_string(format.block);
    const int64_t blocks = kK / format.block, bytes = format.block * format.bits / 8;
    spec.initializers.push_back({.name = name + ".b",
                                 .dtype = DType::u8,
                                 .dims = {kFormatN, blocks, bytes},
                                 .raw = noise(kFormatN * blocks * bytes, uint32_t(format.block))});
    spec.initializers.push_back(
        {.name = name + ".scales", .dims = {kFormatN, blocks}, .raw = scales(kFormatN * blocks, inexact)});
    product({"x", name + ".b", name + ".scales"}, name, kFormatN, format);
  }
  product({"x", "head", "scales"}, "level4", kN, {4, 32, 4});
  return folder.write("model.onnx", test::model_bytes(spec));
}

const Tokens kIds{3, 0, kN - 2, 17};  // none in the table's second and third MiB

// The last block of "x" is 0, at every size, and the last row isn't gathered, so that the inexact scale doesn't show.
exec::RuntimeContext inputs() {
  Floats x(size_t(kRows * kK));
  for (int64_t i = 0; i < kRows * kK; ++i) x[size_t(i)] = i % kK < kK - 128 ? float(i * 37 % 101 - 50) / 64 : 0.0F;
  exec::RuntimeContext context;
  context.inputs = {feed("x", DType::f32, {kRows, kK}, std::move(x)),
                    feed("ids", DType::i64, {int64_t(kIds.size())}, kIds)};
  return context;
}

// Of a run that must be hot, or must not.
std::vector<Floats> outputs_of(RuntimeSession& session, bool hot) {
  exec::RuntimeContext context = inputs();
  const ExecutionHandle handle = session.RunAsync(context);
  const Status status = handle.Wait();
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  CHECK(handle.diagnostics().hot == hot);
  return all_outputs(context);
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
    outputs = outputs_of(session, false);
    REQUIRE(packed_with(session, "s32") == kWeights);
  }
  return outputs;
}

// Calls body(path, scheduler, inexact) for a model whose scales are all float16 and for one with one that isn't, with
// both schedulers.
template <class Body>
void with_models(const Body& body) {
  for (const bool inexact : {false, true}) {
    const test::TempFolder folder;
    const std::string path = write_model(folder, inexact);
    for (const char* const scheduler : {"sequential", "omp-tasks"}) {
      CAPTURE(inexact);
      CAPTURE(scheduler);
      body(path, scheduler, inexact);
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("scales");

TEST_CASE("what is gathered with wide scales are the table's elements") {
  const Floats& rows = expected().at(0);
  REQUIRE(rows.size() == kIds.size() * size_t(kK));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t at = kIds[i / size_t(kK)] * kK + int64_t(i) % kK;
    const int q = uint8_t(elements()[size_t(at / 2)]) >> (at % 2 * 4) & 15;
    REQUIRE(rows[i] == float(q - 8) * scale(at / 32));
  }
}

TEST_CASE("scales are packed as float16 where all are, else wide: the same bits, also after they were loaded again") {
  with_models([](const std::string& path, const char* scheduler, bool inexact) {
    Rig rig({.scheduler = scheduler, .threads = 4});
    RuntimeSession& session = rig.open({.chunk_bytes = kMiB}, path);
    REQUIRE(session.plan().objects[0].chunks.size() == 4);
    for (int round = 0; round < 3; ++round) {
      CHECK(packed_with(session, "s32or16") == kWeights);
      CHECK((outputs_of(session, false) == expected()));
      CHECK(packed_with(session, "s32to16") == (inexact ? 0 : kWeights));
      CHECK(packed_with(session, "s32") == (inexact ? kWeights : 0));
      CHECK((outputs_of(session, true) == expected()));
      REQUIRE(session.EvictAll().ok());
    }
  });
}

TEST_CASE("rows that are read while their table is absent, and rows out of its packed form: the same bits") {
  with_models([](const std::string& path, const char* scheduler, bool inexact) {
    Watcher watcher;
    Rig rig({.scheduler = scheduler, .threads = 4, .observer = &watcher});
    RuntimeSession& session = rig.open({.mode = Mode::on_demand, .verify = Verify::never}, path);
    CHECK((outputs_of(session, false) == expected()));
    uint64_t bytes = 0;  // of the table and its scales: the rows' slices, then the whole for the head
    for (const Seen& seen : watcher.seen()) {
      if (seen.kind == TaskKind::read && seen.object == 0) bytes += seen.bytes;
    }
    CHECK(bytes == (kElementBytes - 2 * kMiB + kScaleBytes) + (kElementBytes + kScaleBytes));
    CHECK(packed_with(session, inexact ? "s32" : "s32to16") == kWeights);
    CHECK((outputs_of(session, true) == expected()));
    REQUIRE(session.EvictAll().ok());
    CHECK((outputs_of(session, false) == expected()));
  });
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
