// Where segments are cut, what they need, and what that adds up to.
#include <doctest/doctest.h>

#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/prepared_arena.h"
#include "plans.h"

TEST_SUITE_BEGIN("segments");

namespace {

using namespace ompipe;
using namespace ompipe::plan;
using namespace ompipe::test;
using model::DType;

TEST_CASE("a segment has at most four large objects, whatever their size") {
  const PlanPointer plan = plan_of(matmul_chain(9, 16));
  REQUIRE(plan->segments.size() == 3);
  CHECK(plan->segments[0].name == "n0");
  CHECK(plan->segments[1].name == "n4");
  CHECK(plan->segments[2].name == "n8");
  CHECK(plan->segments[0].requirements == std::vector<ObjectId>{0, 1, 2, 3});
  CHECK(plan->segments[2].requirements == std::vector<ObjectId>{8});
  CHECK(plan->segments[1].begin == 4);
  CHECK(plan->segments[1].end == 8);
  CHECK(plan->segments[2].end == 9);
  CHECK(plan_of(matmul_chain(9, 16), {.max_large_objects = 9})->segments.size() == 1);
}

TEST_CASE("a node that needs more than that is a segment alone") {
  ModelSpec spec = matmul_chain(1, 128);
  NodeSpec concat{"Concat", {"y0"}, {"c"}, {int_attr("axis", 0)}, "", "many"};
  for (int i = 0; i < 6; ++i) {
    spec.initializers.push_back(zeros("t" + std::to_string(i), DType::f32, {128, 128}));
    concat.inputs.push_back(spec.initializers.back().name);
  }
  spec.nodes.push_back(concat);
  spec.nodes.push_back({"MatMul", {"c", "w0"}, {"last"}, {}, "", "last"});
  spec.outputs = {{"last", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec);
  REQUIRE(plan->segments.size() == 3);
  CHECK(plan->segments[1].name == "many");
  CHECK(plan->segments[1].requirements.size() == 6);
  CHECK(plan->largest_gang.objects == 6);
  CHECK(plan->objects[0].uses == std::vector<SegmentId>{0, 2});
}

TEST_CASE("nodes without weights join the segment under way; a model without any is one segment") {
  ModelSpec spec = matmul_chain(4, 16);
  spec.nodes.push_back({"Relu", {"y3"}, {"r"}});
  spec.outputs = {{"r", DType::f32, {}, false}};
  CHECK(plan_of(spec)->segments.size() == 1);

  spec = {};
  spec.inputs = {{"x", DType::f32, {"n"}}};
  spec.nodes = {{"Relu", {"x"}, {"y"}}};
  spec.outputs = {{"y", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec);
  REQUIRE(plan->segments.size() == 1);
  CHECK(plan->segments[0].requirements.empty());
  CHECK(plan->largest_gang.objects == 0);
  CHECK(plan->packed_bytes == 0);
}

TEST_CASE("gangs are the sums of what their objects count as") {
  ModelSpec spec = nbits_model(64, 40, true);
  spec.initializers.push_back(zeros("bias", DType::f32, {40}));
  spec.nodes.push_back({"Add", {"y", "bias"}, {"z"}});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const PlanPointer plan = plan_of(spec);
  REQUIRE(plan->objects.size() == 2);
  const PreparedObject &packed = plan->objects[0], &bundle = plan->objects[1];
  CHECK(packed.aux_staging_bytes > 0);
  const Gang gang = gang_of(packed);
  CHECK(gang.objects == 1);
  CHECK(gang.prepared_bytes == arenas::PreparedArena::rounded_bytes(packed.bytes));
  CHECK(gang.staging_bytes == arenas::BlockArena::rounded_bytes(packed.aux_staging_bytes) +
                                  arenas::BlockArena::rounded_bytes(packed.chunk_staging_bytes));
  Gang sum = gang;
  sum += gang_of(bundle);
  REQUIRE(plan->gangs.size() == 1);
  for (const Gang& found : {plan->gangs[0], plan->largest_gang}) {
    CHECK(found.objects == 2);
    CHECK(found.prepared_bytes == sum.prepared_bytes);
    CHECK(found.staging_bytes == sum.staging_bytes);
  }
  CHECK(plan->packed_bytes == sum.prepared_bytes);
  CHECK(plan->source_bytes == packed.source_bytes + bundle.source_bytes);
}

TEST_CASE("a limit of resident bytes cuts before the node that would exceed it; a larger node is a segment alone") {
  const ModelSpec spec = matmul_chain(6, 16);
  const uint64_t one = plan_of(spec)->gangs[0].prepared_bytes / 4;
  for (const auto& [limit, segments] :
       {std::pair{UINT64_MAX, 2}, {4 * one, 2}, {4 * one - 1, 2}, {3 * one - 1, 3}, {2 * one - 1, 6}, {1, 6}}) {
    CAPTURE(limit);
    const PlanPointer plan = plan_of(spec, {.prepared_bytes = limit});
    CHECK(plan->segments.size() == size_t(segments));
    CHECK(plan->largest_gang.prepared_bytes <= std::max(limit, one));
  }
}

TEST_CASE("small payloads count too, also those of an earlier segment") {
  ModelSpec spec = matmul_chain(3, 16);
  spec.initializers.push_back(zeros("bias", DType::f32, {16}));
  spec.nodes.insert(spec.nodes.begin() + 1, {"Add", {"y0", "bias"}, {"b0"}});
  spec.nodes[2].inputs[0] = "b0";
  spec.nodes.push_back({"Add", {"y2", "bias"}, {"z"}});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const PlanPointer whole = plan_of(spec);
  REQUIRE(whole->segments.size() == 1);
  const uint64_t page = whole->packed_bytes / 4;  // each object's
  const PlanPointer halves = plan_of(spec, {.prepared_bytes = 3 * page});
  CHECK(halves->segments.size() == 2);
  CHECK(halves->largest_gang.prepared_bytes == 3 * page);
  const PlanPointer cut = plan_of(spec, {.prepared_bytes = 2 * page});
  CHECK(cut->segments.size() == 3);
  CHECK(cut->largest_gang.prepared_bytes == 2 * page);
}

TEST_CASE("the next use of an object") {
  ModelSpec spec = matmul_chain(9, 16);
  spec.nodes[8].inputs[1] = "w0";  // again in the third segment
  const PlanPointer plan = plan_of(spec);
  CHECK(plan->objects[0].uses == std::vector<SegmentId>{0, 2});
  CHECK(plan->next_use(0, 0) == 0);
  CHECK(plan->next_use(0, 1) == 2);
  CHECK(plan->next_use(0, 2) == 2);
  CHECK(plan->next_use(0, 3) == kNone);
  CHECK(plan->next_use(1, 1) == kNone);
}

TEST_CASE("the lives of values") {
  const PlanPointer plan = plan_of(matmul_chain(3, 16));
  const auto life = [&](const char* name) { return plan->lives[size_t(id_named(*plan->model, name))]; };
  CHECK(life("x").defined == kNone);
  CHECK(life("x").last_use == 0);
  CHECK(life("y0").defined == 0);
  CHECK(life("y0").last_use == 1);
  CHECK_FALSE(life("y1").output);
  CHECK(life("y2").defined == 2);
  CHECK(life("y2").last_use == kNone);
  CHECK(life("y2").output);
}

TEST_CASE("rows of a table that a graph input names, unless somebody else needs the table") {
  ModelSpec spec;
  spec.inputs = {{"ids", DType::i64, {"n"}}};
  spec.initializers = {zeros("table", DType::f32, {512, 64})};
  spec.nodes = {{"Gather", {"table", "ids"}, {"e"}}};
  spec.outputs = {{"e", DType::f32, {}, false}};
  PlanPointer plan = plan_of(spec);
  REQUIRE(plan->segments[0].rows.size() == 1);
  CHECK(plan->segments[0].rows[0].object == 0);
  CHECK(plan->segments[0].rows[0].indices == id_named(*plan->model, "ids"));
  CHECK(plan->objects[0].row_addressable);

  spec.nodes.push_back({"Gather", {"table", "ids"}, {"again"}});
  spec.outputs.push_back({"again", DType::f32, {}, false});
  CHECK(plan_of(spec)->segments[0].rows.empty());

  spec.nodes = {{"Gather", {"table", "ids"}, {"e"}, {int_attr("axis", 1)}}};
  spec.outputs.pop_back();
  CHECK(plan_of(spec)->segments[0].rows.empty());

  spec.inputs = {{"values", DType::f32, {"n"}}};
  spec.initializers = {zeros("indices", DType::i64, {16'384})};
  spec.nodes = {{"Gather", {"values", "indices"}, {"e"}}};
  plan = plan_of(spec);
  CHECK(plan->segments[0].rows.empty());
  CHECK_FALSE(plan->objects[0].row_addressable);
}

}  // namespace
