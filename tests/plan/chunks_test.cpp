// How objects are cut into chunks, what has to be decoded, and what a plan refuses.
#include <doctest/doctest.h>

#include "plans.h"

TEST_SUITE_BEGIN("chunks");

namespace {

using namespace ompipe;
using namespace ompipe::plan;
using namespace ompipe::test;
using model::DType;

constexpr uint64_t kMiB = 1u << 20;

TEST_CASE("chunks are multiples of 1 MiB, the last one shorter") {
  ModelSpec spec = matmul_chain(1, 16);
  const uint64_t bytes = 640 * 1024 * 4;  // 2.5 MiB
  spec.inputs[0].dims[1] = "640";
  spec.initializers = {external("w0", DType::f32, {640, 1024}, 4096, bytes)};
  spec.outputs = {{"y0", DType::f32, {}, false}};
  const std::string data(4096 + bytes, '\0');
  const PlanPointer plan = plan_of(spec, {.chunk_bytes = kMiB}, data);
  const PreparedObject& object = plan->objects[0];
  REQUIRE(object.chunks.size() == 3);
  CHECK(object.chunk_staging_bytes == kMiB);
  uint64_t begin = 0;
  for (const Chunk& chunk : object.chunks) {
    CHECK(chunk.begin == begin);
    REQUIRE(chunk.reads.size() == 1);
    CHECK(chunk.reads[0].offset == 4096 + begin);
    CHECK(chunk.reads[0].length == chunk.end - chunk.begin);
    CHECK(chunk.reads[0].staging_offset == 0);
    begin = chunk.end;
  }
  CHECK(begin == bytes);
  CHECK(object.chunks[2].end - object.chunks[2].begin == kMiB / 2);

  CHECK(plan_of(spec, {.chunk_bytes = 2 * kMiB}, data)->objects[0].chunks.size() == 2);
  const PlanPointer whole = plan_of(spec, {.chunk_bytes = 8 * kMiB}, data);
  CHECK(whole->objects[0].chunks.size() == 1);
  CHECK(whole->objects[0].chunk_staging_bytes == bytes);
}

TEST_CASE("what has to be decoded is one chunk, with room for its elements") {
  // 1.5 MiB of B as typed integers: one byte a varint, where none is above 127.
  ModelSpec spec = nbits_model(1024, 3072, false);
  const uint64_t elements = 3072 * 1024 / 2;
  spec.initializers[0].form = Form::int32s;
  spec.initializers[0].numbers.assign(elements, 1.0);
  const PlanPointer plan = plan_of(spec, {.chunk_bytes = kMiB});
  const PreparedObject& object = plan->objects[0];
  CHECK(object.kind == ObjectKind::packed_matmul);
  REQUIRE(object.chunks.size() == 1);
  CHECK(object.chunks[0].begin == 0);
  CHECK(object.chunks[0].end == elements);
  CHECK(object.chunks[0].reads[0].length == elements);
  CHECK(object.sources[0].staging_offset == 0);
  CHECK(object.sources[0].decoded_offset == elements);
  CHECK(object.chunk_staging_bytes == 2 * elements);
  CHECK(object.source_bytes == elements + 3072 * 32 * 4);

  // The same for zero points: B itself stays in chunks only if nothing of the object has to be decoded.
  spec = nbits_model(1024, 3072, true);
  spec.initializers[2].form = Form::int32s;
  spec.initializers[2].numbers.assign(3072 * 16, 200.0);  // two bytes a varint
  const PlanPointer zeros = plan_of(spec, {.chunk_bytes = kMiB});
  const PreparedObject& aux = zeros->objects[0];
  CHECK(aux.chunks.size() == 1);
  CHECK(aux.chunk_staging_bytes == elements);
  CHECK(aux.aux_reads[1].length == 2 * 3072 * 16);
  CHECK(aux.sources[2].decoded_offset == aux.sources[2].staging_offset + 2 * 3072 * 16);
  CHECK(aux.aux_staging_bytes == aux.sources[2].decoded_offset + 3072 * 16);
}

TEST_CASE("an encoded table in source form is decoded from staging") {
  ModelSpec spec;
  spec.inputs = {{"x", DType::i64, {"n"}}};
  spec.initializers = {{.name = "t",
                        .dtype = DType::i64,
                        .dims = {10'000},
                        .form = Form::int64s,
                        .numbers = std::vector<double>(10'000, 3.0)}};
  spec.nodes = {{"Gather", {"t", "x"}, {"y"}}};
  spec.outputs = {{"y", DType::i64, {}, false}};
  const PlanPointer plan = plan_of(spec);
  const PreparedObject& object = plan->objects[0];
  CHECK(object.kind == ObjectKind::source_form);
  CHECK(object.bytes == 80'000);
  CHECK(object.chunks[0].reads[0].length == 10'000);
  CHECK(object.sources[0].decoded_offset % 64 == 0);
  CHECK(object.chunk_staging_bytes == object.sources[0].decoded_offset + 80'000);
  CHECK_FALSE(object.row_addressable);
}

TEST_CASE("a chunk size that is no positive multiple of 1 MiB is refused") {
  for (uint64_t bytes : {uint64_t(0), uint64_t(1000), kMiB + 1, kMiB / 2}) {
    const auto plan = try_plan(matmul_chain(1, 16), {.chunk_bytes = bytes});
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().kind == ErrorKind::usage);
    CHECK(plan.error().reason.find(std::to_string(bytes)) != std::string::npos);
  }
}

TEST_CASE("tile sizes out of range are refused by what was expected") {
  PlanOptions options;
  options.tuning.strip_k = 100;
  const auto plan = try_plan(matmul_chain(1, 16), options);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().kind == ErrorKind::usage);
  CHECK(plan.error().reason == kernels::tuning_error(options.tuning));
}

Error refused(const ModelSpec& spec) {
  const auto plan = try_plan(spec);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().kind == ErrorKind::bad_model);
  CHECK(plan.error().subject == "q");
  return plan.error();
}

TEST_CASE("weights that no kernel takes are refused, naming the node and what was found") {
  const auto says = [](const Error& error, const char* part) {
    CHECK_MESSAGE(error.reason.find(part) != std::string::npos, error.reason);
  };
  ModelSpec spec = nbits_model(64, 40, true);
  spec.initializers.push_back(zeros("g_idx", DType::i32, {64}));
  spec.nodes[0].inputs.push_back("g_idx");
  says(refused(spec), "g_idx");

  spec = nbits_model(64, 40, false);
  spec.nodes[0].attributes[2] = int_attr("bits", 3);
  says(refused(spec), "bits 3");

  spec = nbits_model(64, 40, false);
  spec.initializers.erase(spec.initializers.begin() + 1);
  spec.inputs.push_back({"scales", DType::f32, {"80"}});
  says(refused(spec), "scales is not a constant");

  spec = nbits_model(64, 40, false);
  spec.initializers[0] = zeros("b", DType::u8, {39, 2, 16});
  says(refused(spec), "39");

  spec = nbits_model(64, 40, false);
  spec.initializers[1] = zeros("scales", DType::f32, {79});
  says(refused(spec), "79");

  spec = nbits_model(64, 40, true);
  spec.initializers[2] = zeros("zeros", DType::u8, {41});
  says(refused(spec), "41");

  spec = nbits_model(64, 40, false);
  spec.initializers[1] = zeros("scales", DType::f64, {80});
  says(refused(spec), "float64");

  spec = nbits_model(64, 40, true);
  spec.initializers[2] = zeros("zeros", DType::f64, {80});
  says(refused(spec), "float64");
}

}  // namespace
