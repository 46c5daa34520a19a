// Where nodes run: the rule, its refusals, and what the plan makes of it: sides, keys, crossings, gangs.
#include "ompipe/plan/device_placer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "ompipe/device/arena.h"
#include "ompipe/device/emulated.h"
#include "ompipe/model/resolver.h"
#include "ompipe/plan/print.h"
#include "plans.h"

namespace ompipe::test {

using model::DType;
using plan::DevicePack;
using plan::Recipe;

namespace {

struct Choice {
  plan::DeviceRule rule = {};
  uint64_t memory_bytes = UINT64_MAX;
  const device::Backend* backend = nullptr;  // null: the emulated one
};

// Multiplies at accuracy level 4 alone.
class IntegerBackend final : public device::Backend {
 public:
  const device::Description& describe() const override { return emulated_.describe(); }
  bool computes(const kernels::PackedLayout& layout) const override { return layout.spec.accuracy_level == 4; }
  bool packs(const kernels::PackedLayout& layout) const override { return emulated_.packs(layout); }
  uint64_t workspace_bytes(const kernels::PackedLayout& layout, int64_t m) const override {
    return emulated_.workspace_bytes(layout, m);
  }
  Result<device::Address> allocate(uint64_t bytes) override { return emulated_.allocate(bytes); }
  void free(device::Address address, uint64_t bytes) override { emulated_.free(address, bytes); }
  Status open(device::EventSink& sink) override { return emulated_.open(sink); }
  bool submit(device::Batch&& batch) override { return emulated_.submit(std::move(batch)); }
  void close() override { emulated_.close(); }

 private:
  device::EmulatedBackend emulated_{{}};
};

PlanPointer planned(const ModelSpec& spec, const Choice& choice, const std::string& data = {}) {
  static const device::EmulatedBackend emulated({});
  const device::Backend& backend = choice.backend ? *choice.backend : emulated;
  const TempFolder folder;
  folder.write("weights.bin", data);
  auto graph = model::read_model(folder.write("model.onnx", model_bytes(spec)), {});
  REQUIRE(graph.ok());
  const plan::DevicePlacer placer(backend, choice.rule, kernels::Isa::scalar, choice.memory_bytes);
  model::Resolver resolver(std::move(*graph), &placer);
  REQUIRE(resolver.resolve().ok());
  auto model = std::move(resolver).freeze();
  REQUIRE(model.ok());
  plan::PlanOptions options;
  options.device = plan::DeviceChoice{&backend, choice.rule.pack, choice.memory_bytes};
  auto built = plan::build_plan(*model, options);
  REQUIRE_MESSAGE(built.ok(), (built.ok() ? "" : built.error().message()));
  return *built;
}

std::string why(const plan::PreparedExecutionPlan& plan, const std::string& node) {
  for (const plan::Refusal& refusal : plan.refused) {
    if (plan.model->node(refusal.node).name == node) return refusal.reason;
  }
  return "";
}

// Which of a chain's nodes are on the device, as "n0 n2".
std::string there(const plan::PreparedExecutionPlan& plan) {
  std::string names;
  for (const plan::Action& action : plan.actions) {
    if (action.on_device) names += (names.empty() ? "" : " ") + plan.model->node(action.node).name;
  }
  return names;
}

}  // namespace

TEST_SUITE_BEGIN("device_placer");

TEST_CASE("by operator, by name, by pattern; without a rule whatever the device has") {
  const ModelSpec chain = matmul_chain(4, 16);
  CHECK(there(*planned(chain, {})) == "n0 n1 n2 n3");
  CHECK(there(*planned(chain, {.rule = {.nodes = {"MatMul"}}})) == "n0 n1 n2 n3");
  CHECK(there(*planned(chain, {.rule = {.nodes = {"n1"}}})) == "n1");
  CHECK(there(*planned(chain, {.rule = {.nodes = {"*3", "n0"}}})) == "n0 n3");
  CHECK(there(*planned(chain, {.rule = {.nodes = {"*n*2*"}}})) == "n2");
  CHECK(there(*planned(chain, {.rule = {.nodes = {"MatMulNBits"}}})).empty());
  CHECK(there(*planned(nbits_model(64, 32, true), {})) == "q");
}

TEST_CASE("what was asked for and can't run there stays on the CPU and says why") {
  ModelSpec spec = matmul_chain(2, 16);
  spec.nodes.push_back({"Relu", {"y1"}, {"r"}, {}, "", "relu"});
  spec.nodes.push_back({"MatMul", {"r", "x2"}, {"z"}, {}, "", "both"});
  spec.inputs.push_back({"x2", DType::f32, {"16", "16"}});
  spec.outputs = {{"z", DType::f32, {"n", "16"}}};
  const PlanPointer all = planned(spec, {.rule = {.nodes = {"*"}}});
  CHECK(there(*all) == "n0 n1");
  CHECK(why(*all, "relu") == "the device has no Relu");
  CHECK(why(*all, "both") == "it has no constant weight that is packed");
  CHECK(planned(spec, {})->refused.empty());  // nobody named them

  const PlanPointer small = planned(matmul_chain(2, 64), {.memory_bytes = 8192});
  CHECK(there(*small).empty());
  CHECK(why(*small, "n0") == "its weight takes 16384 bytes on the device, which has 8192");
  CHECK(small->device_bytes == 0);
  const Choice packing{.rule = {.pack = DevicePack::on_device}, .memory_bytes = 16384};
  CHECK(why(*planned(matmul_chain(1, 64), packing), "n0") ==
        "its weight takes 36864 bytes on the device, which has 16384");
}

TEST_CASE("nodes of one weight are asked for at their own accuracy levels") {
  ModelSpec spec = nbits_model(64, 32, true);
  for (const int level : {4, 1}) {
    NodeSpec node = spec.nodes.front();
    node.outputs = {"y" + std::to_string(level)};
    node.name = "q" + std::to_string(level);
    node.attributes.push_back(int_attr("accuracy_level", level));
    spec.outputs.push_back({node.outputs[0], DType::f32, {"m", "32"}});
    spec.nodes.push_back(node);
  }
  const IntegerBackend backend;
  const PlanPointer plan = planned(spec, {.rule = {.nodes = {"q*"}}, .backend = &backend});
  CHECK(there(*plan) == "q4");
  for (const char* const name : {"q", "q1"}) CHECK(why(*plan, name) == "the device can't use the weight's layout");
  CHECK(plan->objects.size() == 2);  // one for each side
}

TEST_CASE("in branches and bodies, and behind If and Loop, nodes stay on the CPU and say so") {
  ModelSpec then, other;
  then.nodes = {{"MatMul", {"y0", "w1"}, {"t"}, {}, "", "inside"}};
  then.outputs = {{"t", DType::f32, {}}};
  other.nodes = {{"Relu", {"y0"}, {"e"}}};
  other.outputs = {{"e", DType::f32, {}}};
  ModelSpec spec = matmul_chain(1, 16);  // n0 from x to y0
  for (const char* name : {"w1", "w2"}) spec.initializers.push_back(zeros(name, DType::f32, {16, 16}));
  spec.inputs.push_back({"c", DType::boolean, {}});
  spec.nodes.push_back(
      {"If",
       {"c"},
       {"i"},
       {graph_attr("then_branch", graph_message(then)), graph_attr("else_branch", graph_message(other))},
       "",
       "choose"});
  spec.nodes.push_back({"Relu", {"i"}, {"r"}});
  spec.nodes.push_back({"MatMul", {"r", "w2"}, {"z"}, {}, "", "behind"});
  spec.nodes.push_back({"MatMul", {"y0", "w1"}, {"s"}, {}, "", "beside"});
  spec.outputs = {{"z", DType::f32, {"n", "16"}}, {"s", DType::f32, {"n", "16"}}};
  const PlanPointer plan = planned(spec, {});
  CHECK(there(*plan) == "n0 beside");
  CHECK(why(*plan, "inside") == "it stands in a branch of If or in the body of a Loop");
  CHECK(why(*plan, "behind") == "it depends on what an If or Loop gives");
  CHECK(plan->refused.size() == 2);
  for (const plan::Segment& segment : plan->segments) CHECK((!segment.on_device || segment.range == plan::kNone));
}

TEST_CASE("a segment lies on one side, and lists what crosses once") {
  ModelSpec spec = matmul_chain(2, 16);  // n0, n1: y0 stays there
  spec.initializers.push_back(zeros("w2", DType::f32, {16, 16}));
  spec.nodes.push_back({"MatMul", {"x", "w2"}, {"s"}, {}, "", "n2"});
  spec.nodes.push_back({"Add", {"y1", "s"}, {"sum"}, {}, "", "add"});
  spec.outputs = {{"sum", DType::f32, {"n", "16"}}};
  const PlanPointer plan = planned(spec, {});
  REQUIRE(plan->segments.size() == 2);
  const plan::Segment& segment = plan->segments[0];
  CHECK(segment.on_device);
  CHECK_FALSE(plan->segments[1].on_device);
  REQUIRE(segment.uploads.size() == 1);
  CHECK(segment.uploads[0].action == 0);
  REQUIRE(segment.readbacks.size() == 2);
  CHECK(segment.readbacks[0].action == 1);
  CHECK(segment.readbacks[1].action == 2);
  CHECK(plan_table(*plan).find("upload x") != std::string::npos);
}

TEST_CASE("objects that don't fit the device together are in segments of their own") {
  const uint64_t one = device::Arena::rounded_bytes(64 * 64 * 4);
  const PlanPointer plan = planned(matmul_chain(4, 64), {.memory_bytes = 2 * one});
  REQUIRE(plan->segments.size() == 2);
  CHECK(plan->largest_gang.device_bytes == 2 * one);
  CHECK(plan->largest_gang.prepared_bytes == 0);
  CHECK(plan->device_bytes == 4 * one);
  CHECK(plan->packed_bytes == 0);
}

TEST_CASE("one payload on both sides: two objects with keys of their own that know of each other") {
  ModelSpec spec = matmul_chain(1, 64);
  spec.nodes.push_back({"MatMul", {"y0", "w0"}, {"z"}, {}, "", "again"});
  spec.outputs = {{"z", DType::f32, {"n", "64"}}};
  for (const DevicePack pack : {DevicePack::on_cpu, DevicePack::on_device}) {
    const PlanPointer plan = planned(spec, {.rule = {.nodes = {"again"}, .pack = pack}});
    REQUIRE(plan->objects.size() == 2);
    CHECK(plan->objects[0].recipe == Recipe::on_cpu);
    CHECK(plan->objects[1].recipe == (pack == DevicePack::on_cpu ? Recipe::pack_upload : Recipe::upload_pack));
    CHECK(plan->objects[0].key.ends_with("|cpu"));
    CHECK(plan->objects[1].key.ends_with("|emulated-1"));
    CHECK(plan->objects[0].other_side == 1);
    CHECK(plan->objects[1].other_side == 0);
    CHECK(plan->objects[0].chunks.size() == plan->objects[1].chunks.size());
  }
}

TEST_CASE("scales decide the layout on the CPU only, and both sides know of each other in spite of it") {
  ModelSpec spec = nbits_model(64, 64, true);
  spec.nodes.push_back(spec.nodes[0]);
  spec.nodes[1].name = "again";
  spec.nodes[1].inputs[0] = "y";
  spec.nodes[1].outputs = {"z"};
  spec.outputs = {{"z", DType::f32, {"m", "64"}}};
  for (const bool device_first : {false, true}) {
    const PlanPointer plan = planned(spec, {.rule = {.nodes = {device_first ? "q" : "again"}}});
    REQUIRE(plan->objects.size() == 2);
    const plan::PreparedObject &cpu = plan->objects[device_first ? 1 : 0], &there = plan->objects[device_first ? 0 : 1];
    CHECK(cpu.layout_key == "nbits4/b32/s32or16/zp/groups8/k64/n64/v1");
    CHECK(cpu.narrow.has_value());
    CHECK(there.recipe == Recipe::pack_upload);
    CHECK(there.layout_key == "nbits4/b32/s32/zp/groups8/k64/n64/v1");
    CHECK_FALSE(there.narrow.has_value());
    CHECK(plan->objects[0].other_side == 1);
    CHECK(plan->objects[1].other_side == 0);
  }
}

TEST_CASE("the plan's table has the tasks of each recipe") {
  const ModelSpec chain = matmul_chain(1, 16);
  const std::string packed = plan_table(*planned(chain, {}));
  CHECK(packed.find("S.w0.upload ") != std::string::npos);
  CHECK(packed.find("S.w0.device_pack") == std::string::npos);
  const std::string there = plan_table(*planned(chain, {.rule = {.pack = DevicePack::on_device}}));
  for (const char* const task : {"S.w0.hash ", "S.w0.upload ", "S.w0.device_pack ", "1 of 1 nodes on the device"})
    CHECK(there.find(task) != std::string::npos);
}

TEST_SUITE_END();

}  // namespace ompipe::test
