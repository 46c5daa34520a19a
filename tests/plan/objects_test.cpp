// What becomes a prepared object, and who shares one: keys, layouts, bundles, operands.
#include <doctest/doctest.h>

#include "plans.h"

TEST_SUITE_BEGIN("objects");

namespace {

using namespace ompipe;
using namespace ompipe::plan;
using namespace ompipe::test;
using model::DType;

const Operand& operand(const PreparedExecutionPlan& plan, size_t action, size_t input) {
  return plan.actions[action].inputs[input];
}

TEST_CASE("one payload used twice is one object") {
  ModelSpec spec = matmul_chain(2, 16);
  spec.nodes[1].inputs[1] = "w0";
  CHECK(plan_of(spec)->objects.size() == 1);

  // Two tensors over the same bytes of the file are one payload.
  spec = matmul_chain(2, 16);
  spec.initializers = {external("w0", DType::f32, {16, 16}, 0, 1024), external("w1", DType::f32, {16, 16}, 0, 1024)};
  CHECK(plan_of(spec, {}, std::string(1024, '\0'))->objects.size() == 1);
}

TEST_CASE("tensors that give the same bytes different shapes are one object, and each is read as it says") {
  // W is [16, 8] to one product, [8, 16] to the other: one payload, two packed forms.
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n", "16"}}};
  spec.initializers = {external("w0", DType::f32, {16, 8}, 0, 512), external("w1", DType::f32, {8, 16}, 0, 512),
                       external("a", DType::f32, {128, 128}, 512, 65536),
                       external("b", DType::f32, {64, 256}, 512, 65536)};
  spec.nodes = {
      {"MatMul", {"x", "w0"}, {"y0"}}, {"MatMul", {"y0", "w1"}, {"y1"}}, {"Neg", {"a"}, {"s"}}, {"Neg", {"b"}, {"t"}}};
  spec.outputs = {{"y1", DType::f32, {"n", "16"}}, {"s", DType::f32, {"128", "128"}}, {"t", DType::f32, {"64", "256"}}};
  const PlanPointer plan = plan_of(spec, {}, std::string(70'000, '\0'));
  REQUIRE(plan->objects.size() == 3);
  CHECK(plan->objects[0].layout.spec.k == 16);
  CHECK(plan->objects[1].layout.spec.k == 8);
  CHECK(operand(*plan, 2, 0).index == operand(*plan, 3, 0).index);
}

TEST_CASE("a bundle reads the bytes that its members share once") {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"16"}}};
  spec.initializers = {external("first", DType::f32, {16}, 0, 64), external("second", DType::f32, {16}, 32, 64)};
  spec.nodes = {{"Add", {"x", "first"}, {"a"}}, {"Add", {"a", "second"}, {"y"}}};
  spec.outputs = {{"y", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec, {}, std::string(96, '\0'));
  REQUIRE(plan->objects.size() == 1);
  REQUIRE(plan->objects[0].chunks[0].reads.size() == 1);
  CHECK(plan->objects[0].chunks[0].reads[0].length == 96);
}

TEST_CASE("a 4-bit table and the head over the same bytes are one object, in the head's form") {
  for (const bool zero_points : {false, true}) {
    const PlanPointer plan = plan_of(tied_model(64, 40, zero_points), {}, std::string(40 * 32, '\0'));
    REQUIRE(plan->objects.size() == 1);
    CHECK(plan->objects[0].kind == ObjectKind::packed_matmul);
    CHECK(plan->objects[0].row_addressable);
    CHECK(plan->objects[0].source_bytes == uint64_t(40 * 32 + 40 * 2 * 4 + (zero_points ? 40 : 0)));
    CHECK(operand(*plan, 0, 0).kind == Operand::Kind::packed);
    CHECK(operand(*plan, 0, 1).kind == Operand::Kind::value);
    CHECK(operand(*plan, 0, 2).kind == Operand::Kind::absent);
    CHECK(operand(*plan, 1, 1).kind == Operand::Kind::packed);
    CHECK(operand(*plan, 0, 0).index == operand(*plan, 1, 1).index);
    // One segment: the head needs the whole.
    CHECK(plan->segments[0].rows.empty());
  }
}

TEST_CASE("a head whose K ends inside a block has the table of whole blocks") {
  ModelSpec spec = tied_model(64, 40, false);
  spec.inputs.push_back({"x", DType::f32, {"m", "50"}});
  spec.nodes[1].inputs[0] = "x";
  spec.nodes[1].attributes[0] = int_attr("K", 50);
  spec.outputs.push_back({"e", DType::f32, {}, false});
  const PlanPointer plan = plan_of(spec, {}, std::string(40 * 32, '\0'));
  REQUIRE(plan->objects.size() == 1);
  CHECK(operand(*plan, 0, 0).kind == Operand::Kind::packed);
}

TEST_CASE("a tied head in a later segment leaves the first one its rows, of every source") {
  ModelSpec spec = tied_model(64, 40, true);
  // Four weights of their own between the table and the head.
  for (int i = 0; i < 4; ++i) {
    const std::string index = std::to_string(i);
    spec.initializers.push_back(zeros("w" + index, DType::f32, {64, 64}));
    spec.nodes.insert(spec.nodes.end() - 1,
                      {"MatMul", {i == 0 ? "e" : "h" + std::to_string(i - 1), "w" + index}, {"h" + index}});
  }
  spec.nodes.back().inputs[0] = "h3";
  const PlanPointer plan = plan_of(spec, {}, std::string(40 * 32, '\0'));
  REQUIRE(plan->objects.size() == 5);
  CHECK(plan->objects[0].uses == std::vector<SegmentId>{0, 1});
  REQUIRE(plan->segments[0].rows.size() == 1);
  CHECK(plan->segments[0].rows[0].object == 0);
  CHECK(plan->segments[0].rows[0].rows == 40);
  CHECK(plan->segments[1].rows.empty());
}

TEST_CASE("a table that is not the head, byte for byte and block for block, stays a table") {
  const auto kinds = [](const ModelSpec& spec) {
    const PlanPointer plan = plan_of(spec, {.bundle_limit_bytes = 1}, std::string(40 * 64, '\0'));
    return std::pair(operand(*plan, 0, 0).kind, plan->objects.size());
  };
  const ModelSpec tied = tied_model(64, 40, false);
  CHECK(kinds(tied) == std::pair(Operand::Kind::packed, size_t(1)));
  ModelSpec spec = tied;  // other bytes
  spec.initializers[1].external[1].second = "1280";
  CHECK(kinds(spec) == std::pair(Operand::Kind::source, size_t(3)));
  spec = tied;  // other scales
  spec.initializers.push_back(zeros("own", DType::f32, {40, 2}));
  spec.nodes[1].inputs[2] = "own";
  CHECK(kinds(spec) == std::pair(Operand::Kind::source, size_t(3)));
  spec = tied;  // zero points of the head alone
  spec.initializers.push_back(zeros("zeros", DType::u8, {40}));
  spec.nodes[1].inputs.push_back("zeros");
  CHECK(kinds(spec) == std::pair(Operand::Kind::source, size_t(3)));
  spec = tied;  // rows of another width: as many bytes
  spec.initializers[0].dims = {20, 64};
  spec.initializers.push_back(zeros("own", DType::f32, {20, 4}));
  spec.nodes[0].inputs[2] = "own";
  spec.nodes.insert(spec.nodes.end() - 1, {"MatMul", {"e", "narrow"}, {"m"}});
  spec.initializers.push_back(zeros("narrow", DType::f32, {128, 64}));
  spec.nodes.back().inputs[0] = "m";
  CHECK(kinds(spec).first == Operand::Kind::source);
  spec = tied;  // the caller may feed another table
  spec.inputs.push_back({"table", DType::u8, {"40", "32"}});
  CHECK(kinds(spec).first == Operand::Kind::overridable);
}

TEST_CASE("equal digests are one object, wherever the bytes lie") {
  const std::string digest = "xxh3-128/1M:00112233445566778899aabbccddeeff";
  ModelSpec spec = matmul_chain(2, 16);
  spec.initializers = {external("w0", DType::f32, {16, 16}, 0, 1024, digest),
                       external("w1", DType::f32, {16, 16}, 4096, 1024, digest)};
  CHECK(plan_of(spec, {}, std::string(8192, '\0'))->objects.size() == 1);
  spec.initializers[1].external.back().second.back() = '0';
  CHECK(plan_of(spec, {}, std::string(8192, '\0'))->objects.size() == 2);
}

TEST_CASE("bundles of equal digests are one object, too") {
  const std::string ones = "xxh3-128/1M:00000000000000000000000000000001",
                    twos = "xxh3-128/1M:00000000000000000000000000000002";
  ModelSpec spec = matmul_chain(8, 16);
  spec.initializers.push_back(external("a0", DType::f32, {16}, 0, 64, ones));
  spec.initializers.push_back(external("a1", DType::f32, {16}, 128, 64, twos));
  spec.initializers.push_back(external("b0", DType::f32, {16}, 10'000, 64, ones));
  spec.initializers.push_back(external("b1", DType::f32, {16}, 30'000, 64, twos));
  spec.nodes.insert(spec.nodes.begin() + 4, {"Add", {"y3", "a1"}, {"s0"}});
  spec.nodes.insert(spec.nodes.begin() + 5, {"Mul", {"s0", "a0"}, {"s1"}});
  spec.nodes[6].inputs[0] = "s1";
  spec.nodes.push_back({"Add", {"y7", "b1"}, {"t0"}});
  spec.nodes.push_back({"Mul", {"t0", "b0"}, {"t1"}});
  spec.outputs = {{"t1", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec, {}, std::string(40'000, '\0'));
  const ObjectId bundle = object_named(*plan, "bundle.0");
  CHECK(plan->objects.size() == 9);
  CHECK(plan->objects[size_t(bundle)].uses == std::vector<SegmentId>{0, 1});
  for (size_t action : {4, 10}) {
    CHECK(operand(*plan, action, 1).index == bundle);
    CHECK(operand(*plan, action, 1).offset == 64);
    CHECK(operand(*plan, action + 1, 1).offset == 0);
  }
}

TEST_CASE("two layouts of one payload are two objects") {
  ModelSpec spec = matmul_chain(1, 128);
  spec.nodes.push_back({"Gemm", {"y0", "w0"}, {"g"}, {int_attr("transB", 1)}});
  spec.nodes.push_back({"Add", {"g", "w0"}, {"s"}});
  spec.outputs = {{"s", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec);
  REQUIRE(plan->objects.size() == 3);
  CHECK(plan->objects[0].kind == ObjectKind::packed_matmul);
  CHECK(plan->objects[1].kind == ObjectKind::packed_matmul);
  CHECK(plan->objects[0].layout_key != plan->objects[1].layout_key);
  CHECK(plan->objects[0].key != plan->objects[1].key);
  CHECK(plan->objects[2].kind == ObjectKind::source_form);
  CHECK(plan->objects[2].bytes == 128 * 128 * 4);
}

TEST_CASE("float32 scales leave two layouts open: the key says so, and the wider one counts") {
  ModelSpec spec = nbits_model(64, 40, true);
  const PlanPointer plan = plan_of(spec);
  const PreparedObject& object = plan->objects[0];
  CHECK(object.layout_key == "nbits4/b32/s32or16/zp/groups8/k64/n40/v1");
  CHECK(object.key.ends_with(object.layout_key + "|cpu"));
  CHECK(kernels::layout_key(object.layout) == "nbits4/b32/s32/zp/groups8/k64/n40/v1");
  REQUIRE(object.narrow.has_value());
  CHECK(kernels::layout_key(*object.narrow) == "nbits4/b32/s32to16/zp/groups8/k64/n40/v1");
  CHECK(object.narrow->isa == object.layout.isa);
  CHECK(object.bytes == uint64_t(object.layout.packed_bytes));
  CHECK(object.bytes - uint64_t(object.narrow->packed_bytes) == 40 * 2 * 2);

  spec.inputs[0].dtype = spec.outputs[0].dtype = DType::f16;
  spec.initializers[1] = zeros("scales", DType::f16, {40 * 2});
  const PlanPointer halves = plan_of(spec);
  CHECK_FALSE(halves->objects[0].narrow.has_value());
  CHECK(halves->objects[0].layout_key == "nbits4/b32/s16/zp/groups8/k64/n40/v1");
  CHECK_FALSE(plan_of(matmul_chain(1, 128))->objects[0].narrow.has_value());
}

TEST_CASE("keys depend on the sources and the layout, not on where the model lies or what surrounds the weight") {
  ModelSpec spec = matmul_chain(2, 16);
  spec.initializers[0] = external("w0", DType::f32, {16, 16}, 64, 1024);
  const PlanPointer first = plan_of(spec, {}, std::string(2048, '\0'));
  const PlanPointer second = plan_of(spec, {.chunk_bytes = 1u << 20}, std::string(2048, '\0'));
  CHECK(first->objects[0].key == second->objects[0].key);
  CHECK(first->objects[1].key == second->objects[1].key);
  spec.initializers[0] = external("w0", DType::f32, {16, 16}, 128, 1024);
  CHECK(plan_of(spec, {}, std::string(2048, '\0'))->objects[0].key != first->objects[0].key);
}

TEST_CASE("scales and zero points belong to the packed object; the node's operands for them are absent") {
  const PlanPointer plan = plan_of(nbits_model(64, 40, true));
  REQUIRE(plan->objects.size() == 1);
  const PreparedObject& object = plan->objects[0];
  CHECK(object.sources.size() == 3);
  CHECK(object.aux_reads.size() == 2);
  CHECK(object.aux_reads[0].length == 40 * 2 * 4);
  CHECK(object.aux_reads[1].length == 40);
  CHECK(object.aux_reads[1].staging_offset % 64 == 0);
  CHECK(object.aux_reads[1].staging_offset >= object.aux_reads[0].staging_offset + object.aux_reads[0].length);
  CHECK(object.aux_staging_bytes == object.aux_reads[1].staging_offset + 40);
  CHECK(object.source_bytes == 40 * 2 * 16 + 40 * 2 * 4 + 40);
  CHECK(operand(*plan, 0, 0).kind == Operand::Kind::value);
  CHECK(operand(*plan, 0, 1).kind == Operand::Kind::packed);
  CHECK(operand(*plan, 0, 2).kind == Operand::Kind::absent);
  CHECK(operand(*plan, 0, 3).kind == Operand::Kind::absent);
}

TEST_CASE("an initializer that the caller may override is never packed") {
  ModelSpec spec = matmul_chain(2, 128);
  spec.inputs.push_back({"w1", DType::f32, {"128", "128"}});
  const PlanPointer plan = plan_of(spec);
  CHECK(operand(*plan, 0, 1).kind == Operand::Kind::packed);
  const Operand& overridable = operand(*plan, 1, 1);
  CHECK(overridable.kind == Operand::Kind::overridable);
  CHECK(overridable.value == id_named(*plan->model, "w1"));
  CHECK(plan->objects[size_t(overridable.index)].kind == ObjectKind::source_form);
}

TEST_CASE("small payloads of a segment form one bundle; reads over short gaps are one") {
  ModelSpec spec = matmul_chain(1, 16);
  spec.initializers.push_back(external("far", DType::f32, {16}, 100'000, 64));
  spec.initializers.push_back(external("second", DType::f32, {16}, 4000, 64));
  spec.initializers.push_back(external("first", DType::f32, {16}, 0, 64));
  spec.nodes.push_back({"Add", {"y0", "far"}, {"a"}});
  spec.nodes.push_back({"Add", {"a", "first"}, {"b"}});
  spec.nodes.push_back({"Mul", {"b", "second"}, {"c"}});
  spec.outputs = {{"c", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec, {}, std::string(200'000, '\0'));
  REQUIRE(plan->objects.size() == 2);
  const PreparedObject& bundle = plan->objects[1];
  CHECK(bundle.kind == ObjectKind::bundle);
  REQUIRE(bundle.chunks.size() == 1);
  const std::vector<Read>& reads = bundle.chunks[0].reads;
  REQUIRE(reads.size() == 2);
  CHECK(reads[0].offset == 0);
  CHECK(reads[0].length == 4064);
  CHECK(reads[0].staging_offset == 0);
  CHECK(reads[1].offset == 100'000);
  CHECK(reads[1].length == 64);
  CHECK(reads[1].staging_offset == 4096);
  CHECK(bundle.chunk_staging_bytes == 4096 + 64);
  CHECK(bundle.source_bytes == 3 * 64);
  CHECK(bundle.bytes == 3 * 64);
  // In the order of the file: first, second, far.
  CHECK(operand(*plan, 2, 1).offset == 0);
  CHECK(operand(*plan, 3, 1).offset == 64);
  CHECK(operand(*plan, 1, 1).offset == 128);
  for (size_t action : {1, 2, 3}) {
    CHECK(operand(*plan, action, 1).kind == Operand::Kind::source);
    CHECK(operand(*plan, action, 1).index == 1);
  }
  CHECK(bundle.sources[1].staging_offset == 4000);
}

TEST_CASE("a small payload of an earlier segment's bundle is not bundled again") {
  ModelSpec spec = matmul_chain(5, 16);
  spec.initializers.push_back(zeros("bias", DType::f32, {16}));
  spec.initializers.push_back(zeros("own", DType::f32, {16}));
  spec.nodes.insert(spec.nodes.begin() + 1, {"Add", {"y0", "bias"}, {"y0b"}});
  spec.nodes[2].inputs[0] = "y0b";
  spec.nodes.push_back({"Add", {"y4", "bias"}, {"z"}});
  spec.outputs = {{"z", DType::f32, {}, false}};
  PlanPointer plan = plan_of(spec);
  REQUIRE(plan->segments.size() == 2);
  const ObjectId bundle = object_named(*plan, "bundle.0");
  CHECK(plan->objects[size_t(bundle)].uses == std::vector<SegmentId>{0, 1});
  CHECK(plan->segments[1].requirements.size() == 2);
  CHECK(plan->objects.size() == 6);

  spec.nodes.push_back({"Add", {"z", "own"}, {"zz"}});
  spec.outputs = {{"zz", DType::f32, {}, false}};
  plan = plan_of(spec);
  CHECK(plan->objects[size_t(object_named(*plan, "bundle.1"))].sources.size() == 1);
  CHECK(plan->segments[1].requirements.size() == 3);
}

TEST_CASE("64 KiB in source form are an object of their own, one element less are bundled") {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n"}}};
  spec.initializers = {zeros("large", DType::f32, {16384}), zeros("small", DType::f32, {16383})};
  spec.nodes = {{"Add", {"x", "large"}, {"y"}}, {"Neg", {"small"}, {"z"}}};
  spec.outputs = {{"y", DType::f32, {}, false}, {"z", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec);
  REQUIRE(plan->objects.size() == 2);
  CHECK(plan->objects[0].kind == ObjectKind::source_form);
  CHECK(plan->objects[0].chunk_staging_bytes == 0);
  CHECK(plan->objects[1].kind == ObjectKind::bundle);
}

}  // namespace
