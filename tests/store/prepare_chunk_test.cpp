// What prepare_chunk writes: the same bytes however an object is cut and in whatever order its chunks come.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "loader.h"
#include "ompipe/kernels/matmul.h"

TEST_SUITE_BEGIN("prepare_chunk");

namespace {

using namespace ompipe;
using namespace ompipe::plan;
using namespace ompipe::test;
using model::DType;

constexpr uint64_t kMiB = 1u << 20;

// Prepares the object at several chunk sizes, each in order and in two random ones; all must give `expected`.
void check_all_orders(const ModelSpec& spec, const std::string& name, const std::string& data,
                      std::span<const std::byte> expected, size_t chunks_at_1m) {
  std::mt19937 random(7);
  for (uint64_t chunk_bytes : {kMiB, 2 * kMiB, 16 * kMiB}) {
    const PlanPointer plan = plan_of(spec, {.chunk_bytes = chunk_bytes}, data);
    const ObjectId id = object_named(*plan, name);
    const PreparedObject& object = plan->objects[size_t(id)];
    REQUIRE(object.bytes == expected.size());
    if (chunk_bytes == kMiB) CHECK(object.chunks.size() == chunks_at_1m);
    std::vector<size_t> order(object.chunks.size());
    std::iota(order.begin(), order.end(), size_t(0));
    for (int round = 0; round < 3; ++round) {
      const Prepared prepared = prepare_object(*plan, id, order);
      REQUIRE(prepared.status.ok());
      CHECK(std::memcmp(prepared.bytes.get(), expected.data(), expected.size()) == 0);
      CHECK(prepared.hashes.verify(*plan, object).ok());
      std::shuffle(order.begin(), order.end(), random);
    }
  }
}

std::span<const std::byte> bytes_of(const std::string& text, size_t offset, size_t bytes) {
  return {reinterpret_cast<const std::byte*>(text.data()) + offset, bytes};
}

std::string digest_at(const std::string& data, size_t offset, size_t bytes) {
  return io::format_digest(io::digest_of(bytes_of(data, offset, bytes)));
}

TEST_CASE("4-bit weights: panels that straddle chunks, scales and zero points from their own staging") {
  // 528 bytes a column, so that neither a column nor a group of 8 ends at a multiple of 1 MiB.
  const int64_t k = 1056, n = 4501, blocks = k / 32;
  const uint64_t b_bytes = uint64_t(n * blocks * 16), scale_bytes = uint64_t(n * blocks * 4),
                 zero_bytes = uint64_t(n * ((blocks + 1) / 2));
  const uint64_t scales_at = b_bytes + 100, zeros_at = scales_at + scale_bytes;
  const std::string data = noise(zeros_at + zero_bytes, 1);
  ModelSpec spec = nbits_model(k, n, true);
  spec.initializers = {
      external("b", DType::u8, {n, blocks, 16}, 0, b_bytes, digest_at(data, 0, b_bytes)),
      external("scales", DType::f32, {n * blocks}, scales_at, scale_bytes, digest_at(data, scales_at, scale_bytes)),
      external("zeros", DType::u8, {n * ((blocks + 1) / 2)}, zeros_at, zero_bytes,
               digest_at(data, zeros_at, zero_bytes))};
  const PlanPointer plan = plan_of(spec, {}, data);
  const kernels::PackedLayout& layout = plan->objects[0].layout;
  const auto expected = aligned_bytes(uint64_t(layout.packed_bytes));
  kernels::pack_range(layout,
                      {bytes_of(data, 0, b_bytes).data(), bytes_of(data, scales_at, scale_bytes).data(),
                       bytes_of(data, zeros_at, zero_bytes).data()},
                      0, int64_t(b_bytes), expected.get());
  check_all_orders(spec, "b", data, {expected.get(), uint64_t(layout.packed_bytes)}, 3);
}

TEST_CASE("scales that are all float16 are packed so, from whatever chunk comes first; one that isn't keeps all wide") {
  const int64_t k = 1024, n = 4100, blocks = k / 32;
  const uint64_t b_bytes = uint64_t(n * k / 2), scale_bytes = uint64_t(n * blocks * 4);
  std::vector<float> scales;
  for (int64_t i = 0; i < n * blocks; ++i) scales.push_back(float(i % 2047 - 1000) / 4096);
  for (const bool inexact : {false, true}) {
    CAPTURE(inexact);
    if (inexact) scales.back() = 0.1F;
    const std::string data = noise(b_bytes, 11) + f32_bytes(scales);
    ModelSpec spec = nbits_model(k, n, false);
    spec.initializers = {
        external("b", DType::u8, {n, blocks, 16}, 0, b_bytes, digest_at(data, 0, b_bytes)),
        external("scales", DType::f32, {n * blocks}, b_bytes, scale_bytes, digest_at(data, b_bytes, scale_bytes))};
    const PlanPointer plan = plan_of(spec, {}, data);
    const PreparedObject& object = plan->objects[0];
    REQUIRE(object.narrow.has_value());
    const kernels::PackedLayout& layout = inexact ? object.layout : *object.narrow;
    CHECK(prepare_object(*plan, 0).scale_form == (inexact ? store::ScaleForm::wide : store::ScaleForm::narrow));
    // Behind the narrow form the object's bytes stay as they were.
    const auto expected = aligned_bytes(object.bytes);
    kernels::pack_range(layout, {bytes_of(data, 0, b_bytes).data(), bytes_of(data, b_bytes, scale_bytes).data()}, 0,
                        int64_t(b_bytes), expected.get());
    check_all_orders(spec, "b", data, {expected.get(), object.bytes}, 3);
  }
}

TEST_CASE("who keeps no form of the scales has them wide, and an answer that is there isn't looked for again") {
  const int64_t k = 64, n = 40, blocks = k / 32;
  const std::string b = noise(size_t(n * k / 2), 12);
  std::vector<float> scales;
  for (int64_t i = 0; i < n * blocks; ++i) scales.push_back(float(i + 1) / 64);  // float16 all
  ModelSpec spec = nbits_model(k, n, false);
  spec.initializers[0].raw = b;
  spec.initializers[1].raw = f32_bytes(scales);
  const PlanPointer plan = plan_of(spec);
  const PreparedObject& object = plan->objects[0];
  const auto text = [&](const std::shared_ptr<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.get()), object.bytes);
  };
  const auto expected = [&](const kernels::PackedLayout& layout) {
    const auto bytes = aligned_bytes(object.bytes);
    kernels::pack_range(layout, {bytes_of(b, 0, b.size()).data(), std::as_bytes(std::span(scales)).data()}, 0,
                        int64_t(b.size()), bytes.get());
    return text(bytes);
  };
  const auto staging = aligned_bytes(object.chunk_staging_bytes), aux = aligned_bytes(object.aux_staging_bytes);
  read_into(*plan, object.chunks[0].reads, staging.get());
  read_into(*plan, object.aux_reads, aux.get());
  const auto packed = [&](store::SharedScaleForm* form) {
    const auto bytes = aligned_bytes(object.bytes);
    REQUIRE(store::prepare_chunk({plan.get(), &object, 0, staging.get(), aux.get(), bytes.get(), nullptr, form}).ok());
    return text(bytes);
  };
  store::SharedScaleForm unknown{store::ScaleForm::unknown}, wide{store::ScaleForm::wide};
  // Strings of bytes are not for a message.
  CHECK((packed(nullptr) == expected(object.layout)));
  CHECK((packed(&wide) == expected(object.layout)));
  CHECK((packed(&unknown) == expected(*object.narrow)));
  CHECK(unknown == store::ScaleForm::narrow);
  CHECK(wide == store::ScaleForm::wide);
}

TEST_CASE("float weights, both ways round") {
  const int64_t k = 700, n = 901;
  const uint64_t bytes = uint64_t(k * n * 4);
  const std::string data = noise(bytes, 2);
  for (bool transposed : {false, true}) {
    ModelSpec spec;
    spec.inputs = {{"x", DType::f32, {"m", std::to_string(k)}}};
    spec.nodes = {{"Gemm", {"x", "w"}, {"y"}, {int_attr("transB", transposed)}}};
    spec.outputs = {{"y", DType::f32, {}, false}};
    const std::vector<int64_t> dims = transposed ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
    spec.initializers = {external("w", DType::f32, dims, 0, bytes, digest_at(data, 0, bytes))};
    const PlanPointer plan = plan_of(spec, {}, data);
    const kernels::PackedLayout& layout = plan->objects[0].layout;
    const auto expected = aligned_bytes(uint64_t(layout.packed_bytes));
    kernels::pack_range(layout, {bytes_of(data, 0, bytes).data()}, 0, int64_t(bytes), expected.get());
    check_all_orders(spec, "w", data, {expected.get(), uint64_t(layout.packed_bytes)}, 3);
  }
}

TEST_CASE("source form: the payload's bytes") {
  const uint64_t bytes = 1000 * 700 * 4;
  const std::string data = noise(64 + bytes, 3);
  ModelSpec spec;
  spec.inputs = {{"ids", DType::i64, {"n"}}};
  spec.nodes = {{"Gather", {"table", "ids"}, {"y"}}};
  spec.outputs = {{"y", DType::f32, {}, false}};
  spec.initializers = {external("table", DType::f32, {1000, 700}, 64, bytes, digest_at(data, 64, bytes))};
  check_all_orders(spec, "table", data, bytes_of(data, 64, bytes), 3);
}

TEST_CASE("a bundle: its members at their offsets, decoded where they must be, each with its own digest") {
  const std::string data = noise(20'000, 4);
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"4"}}, {"i", DType::i64, {"3"}}};
  spec.initializers = {
      external("far", DType::f32, {4}, 16'000, 16, digest_at(data, 16'000, 16)),
      external("near", DType::f32, {4}, 10, 16, digest_at(data, 10, 16)),
      {.name = "typed", .dtype = DType::u8, .dims = {4}, .form = Form::int32s, .numbers = {0, 127, 128, 255}}};
  spec.nodes = {{"Add", {"x", "far"}, {"a"}}, {"Mul", {"a", "near"}, {"b"}}, {"Gather", {"typed", "i"}, {"j"}}};
  spec.outputs = {{"b", DType::f32, {}, false}, {"j", DType::u8, {}, false}};
  const PlanPointer plan = plan_of(spec, {}, data);
  const ObjectId id = object_named(*plan, "bundle.0");
  const PreparedObject& object = plan->objects[size_t(id)];
  const Prepared prepared = prepare_object(*plan, id);
  REQUIRE(prepared.status.ok());
  CHECK(prepared.hashes.verify(*plan, object).ok());
  const auto member = [&](const char* name, std::string_view bytes) {
    for (const Source& source : object.sources) {
      if (plan->model->payload(source.payload).name != name) continue;
      CHECK(std::memcmp(prepared.bytes.get() + source.object_offset, bytes.data(), bytes.size()) == 0);
      return;
    }
    FAIL("not in the bundle: " << std::string(name));
  };
  member("far", std::string_view(data).substr(16'000, 16));
  member("near", std::string_view(data).substr(10, 16));
  member("typed", std::string("\0\x7f\x80\xff", 4));
}

TEST_CASE("what was typed in the file packs as its elements") {
  const int64_t k = 64, n = 44, blocks = k / 32;
  const std::string b = noise(size_t(n * blocks * 16), 8), zeros = noise(size_t(n * ((blocks + 1) / 2)), 9),
                    scales = noise(size_t(n * blocks * 4), 10);
  const auto type = [](Tensor& tensor, const std::string& bytes) {
    tensor.form = Form::int32s;
    for (char c : bytes) tensor.numbers.push_back(double(static_cast<unsigned char>(c)));
  };
  ModelSpec spec = nbits_model(k, n, true);
  type(spec.initializers[0], b);
  spec.initializers[1].raw = scales;
  type(spec.initializers[2], zeros);
  const PlanPointer plan = plan_of(spec);
  const kernels::PackedLayout& layout = plan->objects[0].layout;
  const auto expected = aligned_bytes(uint64_t(layout.packed_bytes));
  kernels::pack_range(layout,
                      {bytes_of(b, 0, b.size()).data(), bytes_of(scales, 0, scales.size()).data(),
                       bytes_of(zeros, 0, zeros.size()).data()},
                      0, int64_t(b.size()), expected.get());
  const Prepared prepared = prepare_object(*plan, 0);
  REQUIRE(prepared.status.ok());
  CHECK(std::memcmp(prepared.bytes.get(), expected.get(), uint64_t(layout.packed_bytes)) == 0);
}

TEST_CASE("typed elements in source form; damage is an error that names the tensor") {
  std::vector<double> numbers(9000);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  ModelSpec spec;
  spec.inputs = {{"ids", DType::i64, {"n"}}};
  spec.nodes = {{"Gather", {"table", "ids"}, {"y"}}};
  spec.outputs = {{"y", DType::i64, {}, false}};
  spec.initializers = {
      {.name = "table", .dtype = DType::i64, .dims = {9000}, .form = Form::int64s, .numbers = numbers}};
  const PlanPointer plan = plan_of(spec);
  const PreparedObject& object = plan->objects[0];
  const Prepared prepared = prepare_object(*plan, 0);
  REQUIRE(prepared.status.ok());
  const std::string expected = i64_bytes({numbers.begin(), numbers.end()});
  CHECK(std::memcmp(prepared.bytes.get(), expected.data(), expected.size()) == 0);

  const auto staging = aligned_bytes(object.chunk_staging_bytes);
  read_into(*plan, object.chunks[0].reads, staging.get());
  staging.get()[object.chunks[0].reads[0].length - 1] |= std::byte(0x80);  // a varint without an end
  store::ChunkJob job{
      .plan = plan.get(), .object = &object, .staging = staging.get(), .prepared = prepared.bytes.get()};
  const Status status = store::prepare_chunk(job);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().kind == ErrorKind::bad_model);
  CHECK(status.error().subject == "table");
}

TEST_CASE("a digest that is wrong is an error with tensor, file, range, expected and found") {
  const uint64_t bytes = kMiB + 4096;
  const std::string data = noise(8 + bytes, 5);
  ModelSpec spec;
  spec.inputs = {{"ids", DType::i64, {"n"}}};
  spec.nodes = {{"Gather", {"table", "ids"}, {"y"}}};
  spec.outputs = {{"y", DType::u8, {}, false}};
  const std::string right = digest_at(data, 8, bytes);
  std::string wrong = right;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  spec.initializers = {external("table", DType::u8, {int64_t(bytes)}, 8, bytes, wrong)};
  const PlanPointer plan = plan_of(spec, {.chunk_bytes = kMiB}, data);
  const Status status = prepare_object(*plan, 0).hashes.verify(*plan, plan->objects[0]);
  REQUIRE_FALSE(status.ok());
  const Error& error = status.error();
  CHECK(error.kind == ErrorKind::bad_model);
  CHECK(error.phase == "digest");
  CHECK(error.subject == "table");
  CHECK(error.file.ends_with("weights.bin"));
  CHECK(error.offset == 8);
  CHECK(error.length == bytes);
  CHECK(error.reason.find(wrong) != std::string::npos);
  CHECK(error.reason.find(right) != std::string::npos);

  // Without a digest nothing is promised.
  spec.initializers = {external("table", DType::u8, {int64_t(bytes)}, 8, bytes)};
  const PlanPointer unverified = plan_of(spec, {.chunk_bytes = kMiB}, data);
  CHECK(prepare_object(*unverified, 0).hashes.verify(*unverified, unverified->objects[0]).ok());
}

TEST_CASE("a chunk that never came leaves the digest wrong") {
  const uint64_t bytes = 3 * kMiB;
  const std::string data = noise(bytes, 6);
  ModelSpec spec;
  spec.inputs = {{"ids", DType::i64, {"n"}}};
  spec.nodes = {{"Gather", {"table", "ids"}, {"y"}}};
  spec.outputs = {{"y", DType::u8, {}, false}};
  spec.initializers = {external("table", DType::u8, {int64_t(bytes)}, 0, bytes, digest_at(data, 0, bytes))};
  const PlanPointer plan = plan_of(spec, {.chunk_bytes = kMiB}, data);
  CHECK(prepare_object(*plan, 0, {2, 0, 1}).hashes.verify(*plan, plan->objects[0]).ok());
  CHECK_FALSE(prepare_object(*plan, 0, {2, 0}).hashes.verify(*plan, plan->objects[0]).ok());
}

}  // namespace
