#include "plans.h"

#include <doctest/doctest.h>

#include "ompipe/model/resolver.h"

namespace ompipe::test {

using model::DType;

Result<PlanPointer> try_plan(const ModelSpec& spec, const plan::PlanOptions& options) {
  auto model = open_spec(spec);
  if (!model.ok()) return model.error();
  return plan::build_plan(*model, options);
}

PlanPointer plan_of(const ModelSpec& spec, const plan::PlanOptions& options, const std::string& data) {
  TempFolder folder;
  folder.write("weights.bin", data);
  auto model = model::open_model(folder.write("model.onnx", model_bytes(spec)), {});
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  auto plan = plan::build_plan(*model, options);
  REQUIRE_MESSAGE(plan.ok(), (plan.ok() ? "" : plan.error().message()));
  return *plan;
}

Tensor external(std::string name, DType dtype, std::vector<int64_t> dims, uint64_t offset, uint64_t bytes,
                const std::string& digest) {
  Tensor tensor{.name = std::move(name), .dtype = dtype, .dims = std::move(dims), .form = Form::external};
  tensor.external = {
      {"location", "weights.bin"}, {"offset", std::to_string(offset)}, {"length", std::to_string(bytes)}};
  if (!digest.empty()) tensor.external.emplace_back("checksum", digest);
  return tensor;
}

ModelSpec matmul_chain(int count, int64_t width) {
  ModelSpec spec;
  const std::string side = std::to_string(width);
  spec.inputs = {{"x", DType::f32, {"n", side}}};
  for (int i = 0; i < count; ++i) {
    const std::string index = std::to_string(i);
    spec.initializers.push_back(zeros("w" + index, DType::f32, {width, width}));
    spec.nodes.push_back(
        {"MatMul", {i == 0 ? "x" : "y" + std::to_string(i - 1), "w" + index}, {"y" + index}, {}, "", "n" + index});
  }
  spec.outputs = {{"y" + std::to_string(count - 1), DType::f32, {"n", side}}};
  return spec;
}

ModelSpec nbits_model(int64_t k, int64_t n, bool zero_points) {
  const int64_t blocks = k / 32;
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"m", std::to_string(k)}}};
  spec.initializers = {zeros("b", DType::u8, {n, blocks, 16}), zeros("scales", DType::f32, {n * blocks})};
  NodeSpec node{"MatMulNBits",   {"x", "b", "scales"},
                {"y"},           {int_attr("K", k), int_attr("N", n), int_attr("bits", 4), int_attr("block_size", 32)},
                "com.microsoft", "q"};
  if (zero_points) {
    spec.initializers.push_back(zeros("zeros", DType::u8, {n * ((blocks + 1) / 2)}));
    node.inputs.push_back("zeros");
  }
  spec.nodes = {std::move(node)};
  spec.outputs = {{"y", DType::f32, {"m", std::to_string(n)}}};
  return spec;
}

ModelSpec tied_model(int64_t width, int64_t rows, bool zero_points) {
  const int64_t blocks = width / 32;
  ModelSpec spec;
  spec.inputs = {{"ids", DType::i64, {"n"}}};
  const auto bytes = uint64_t(rows * width / 2);
  spec.initializers = {external("table", DType::u8, {rows, width / 2}, 0, bytes),
                       external("b", DType::u8, {rows, blocks, 16}, 0, bytes),
                       zeros("scales", DType::f32, {rows, blocks})};
  spec.nodes = {{"GatherBlockQuantized",
                 {"table", "ids", "scales"},
                 {"e"},
                 {int_attr("block_size", 32)},
                 "com.microsoft",
                 "embedding"},
                {"MatMulNBits",
                 {"e", "b", "scales"},
                 {"y"},
                 {int_attr("K", width), int_attr("N", rows), int_attr("block_size", 32)},
                 "com.microsoft",
                 "q"}};
  if (zero_points) {
    spec.initializers.push_back(zeros("zeros", DType::u8, {rows, (blocks + 1) / 2}));
    for (NodeSpec& node : spec.nodes) node.inputs.push_back("zeros");
  }
  spec.outputs = {{"y", DType::f32, {}, false}};
  return spec;
}

plan::ObjectId object_named(const plan::PreparedExecutionPlan& plan, const std::string& name) {
  for (size_t id = 0; id < plan.objects.size(); ++id) {
    if (plan.objects[id].name == name) return plan::ObjectId(id);
  }
  FAIL("no object is called " << name);
  return plan::kNone;
}

}  // namespace ompipe::test
