#include "weights.h"

#include <fmt/format.h>

#include <optional>

#include "objects.h"
#include "ompipe/arenas/error.h"
#include "ompipe/plan/accuracy_level.h"

namespace ompipe::plan {

namespace {

std::optional<kernels::ZeroPoints> zero_points_of(model::DType type) {
  switch (type) {
    case model::DType::u8:
      return kernels::ZeroPoints::packed;
    case model::DType::f32:
      return kernels::ZeroPoints::f32;
    case model::DType::f16:
      return kernels::ZeroPoints::f16;
    default:
      return std::nullopt;
  }
}

}  // namespace

int accuracy_level(const model::Node& node) { return node.int_attribute("accuracy_level", 0) == 4 ? 4 : 0; }

Result<WeightSources> nbits_weight(const model::Node& node, std::span<const model::Value> values) {
  WeightSources weight;
  kernels::MatMulSpec& spec = weight.spec;
  auto refuse = [&](std::string reason) { return Error{ErrorKind::bad_model, "plan", node.name, std::move(reason)}; };
  auto given = [&](size_t i) { return i < node.inputs.size() && node.inputs[i] != kNone; };
  if (given(4)) return refuse("MatMulNBits with g_idx is not supported: expected weights in the order of k");
  const int64_t bits = node.int_attribute("bits", 4);
  spec.format = kernels::WeightFormat::nbits;
  spec.k = node.int_attribute("K", 0);
  spec.n = node.int_attribute("N", 0);
  spec.bits = int(bits);
  spec.block = int(node.int_attribute("block_size", 0));
  const auto operand = [&](size_t i) -> const model::Value& { return values[size_t(node.inputs[i])]; };
  for (size_t i = 1; i <= (given(3) ? 3u : 2u); ++i) {
    if (operand(i).source != model::ValueSource::initializer) {
      return refuse(fmt::format("{} is not a constant; MatMulNBits needs constant weights, scales and zero points",
                                operand(i).name));
    }
    weight.payloads.push_back(operand(i).payload);
  }
  const model::DType scale_type = operand(2).dtype;
  if (scale_type != model::DType::f32 && scale_type != model::DType::f16) {
    return refuse(fmt::format("scales of type {}; expected float32 or float16", model::dtype_name(scale_type)));
  }
  if (given(3)) {
    const std::optional<kernels::ZeroPoints> zero_points = zero_points_of(operand(3).dtype);
    if (!zero_points) {
      return refuse(fmt::format("zero points of type {}; expected packed uint8, float32 or float16",
                                model::dtype_name(operand(3).dtype)));
    }
    spec.zero_points = *zero_points;
  }
  spec.scale_type = scale_type == model::DType::f16 ? kernels::ScaleType::f16 : kernels::ScaleType::f32;
  return weight;
}

WeightSources float_weight(const model::Node& node, std::span<const model::Value> values) {
  WeightSources weight;
  const bool gemm = node.domain.empty() && node.op_type == "Gemm";
  if (!gemm && !(node.domain.empty() && node.op_type == "MatMul")) return weight;
  if (node.inputs.size() < 2 || node.inputs[1] == kNone) return weight;
  const model::Value& b = values[size_t(node.inputs[1])];
  if (b.source != model::ValueSource::initializer) return weight;
  const model::Shape dims = b.dims();
  if (dims.size() != 2) return weight;
  kernels::MatMulSpec& spec = weight.spec;
  switch (b.dtype) {
    case model::DType::f32:
      spec.format = kernels::WeightFormat::f32;
      break;
    case model::DType::f16:
      spec.format = kernels::WeightFormat::f16;
      break;
    case model::DType::bf16:
      spec.format = kernels::WeightFormat::bf16;
      break;
    default:
      return weight;
  }
  spec.trans_b = gemm && node.int_attribute("transB", 0) != 0;
  spec.k = dims[spec.trans_b ? 1 : 0];
  spec.n = dims[spec.trans_b ? 0 : 1];
  if (kernels::unsupported_reason(spec)) return weight;
  weight.payloads.push_back(b.payload);
  return weight;
}

Result<WeightSources> integer_weight(const model::Node& node, std::span<const model::Value> values) {
  const model::Value& b = values[size_t(node.inputs[1])];
  const model::Shape dims = b.source == model::ValueSource::initializer ? b.dims() : model::Shape{};
  if (dims.size() != 2) {
    return Error{ErrorKind::bad_model, "plan", node.name,
                 fmt::format("{} is not a constant matrix; MatMulInteger needs one as its second operand", b.name)};
  }
  WeightSources weight;
  weight.spec.format = b.dtype == model::DType::i8 ? kernels::WeightFormat::s8 : kernels::WeightFormat::u8;
  weight.spec.k = dims[0];
  weight.spec.n = dims[1];
  weight.payloads.push_back(b.payload);
  return weight;
}

const char* why_unpacked_fails(const model::Node& node, std::span<const model::Value> values) {
  const bool product = node.kind() == model::OpKind::mat_mul || node.kind() == model::OpKind::gemm;
  if (!product || values[size_t(node.inputs[0])].dtype != model::DType::f16) return nullptr;
  return "its first operand is float16; expected a constant float matrix as the second, which is packed";
}

void SharedWeights::find(const model::ResolvedModel& model, const ObjectTable& objects) {
  model_ = &model;
  objects_ = &objects;
  for (model::NodeId id = 0; id < model::NodeId(model.nodes().size()); ++id) {
    if (model.node(id).kind() != model::OpKind::mat_mul_nbits) continue;
    Result<WeightSources> weight = nbits_weight(model.node(id), model.values());
    if (!weight.ok()) continue;
    const std::string lineage = objects.lineage(weight->payloads);
    weights_.try_emplace(lineage, Weight{id, *std::move(weight)});
  }
}

const Weight* SharedWeights::of_table(const model::Node& node) const {
  std::vector<model::PayloadId> sources;
  for (size_t i : {size_t(0), size_t(2), size_t(3)}) {
    if (i >= node.inputs.size() || node.inputs[i] == model::kNone) continue;
    const model::Value& value = model_->value(node.inputs[i]);
    if (value.source != model::ValueSource::initializer) return nullptr;
    sources.push_back(value.payload);
  }
  const auto found = weights_.find(objects_->lineage(sources));
  if (found == weights_.end()) return nullptr;
  const kernels::MatMulSpec& spec = found->second.of.spec;
  const model::Shape dims = model_->value(node.inputs[0]).dims();
  const int64_t blocks = (spec.k + spec.block - 1) / spec.block;
  const bool same = dims == model::Shape{spec.n, blocks * spec.block / 2} &&
                    spec.block == node.int_attribute("block_size", 128) && spec.scale_type == kernels::ScaleType::f32 &&
                    spec.bits == 4 &&
                    (spec.zero_points == kernels::ZeroPoints::none || spec.zero_points == kernels::ZeroPoints::packed);
  return same ? &found->second : nullptr;
}

}  // namespace ompipe::plan
