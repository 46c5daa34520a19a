#include "weights.h"

#include <fmt/format.h>

namespace ompipe::plan {

Status nbits_weight(const model::ResolvedModel& model, const model::Node& node, std::vector<model::PayloadId>& sources,
                    kernels::MatMulSpec& spec) {
  auto refuse = [&](std::string reason) {
    return Status(Error{ErrorKind::bad_model, "plan", node.name, std::move(reason)});
  };
  auto given = [&](size_t i) { return i < node.inputs.size() && node.inputs[i] != model::kNone; };
  if (given(4)) return refuse("MatMulNBits with g_idx is not supported: expected weights in the order of k");
  const int64_t bits = node.int_attribute("bits", 4);
  if (bits != 4) return refuse(fmt::format("MatMulNBits has bits {}; expected 4", bits));
  spec.format = kernels::WeightFormat::nbits4;
  spec.k = node.int_attribute("K", 0);
  spec.n = node.int_attribute("N", 0);
  spec.block = int(node.int_attribute("block_size", 0));
  spec.accuracy_level = node.int_attribute("accuracy_level", 0) == 4 ? 4 : 0;
  spec.has_zero_points = given(3);
  for (size_t i = 1; i <= (spec.has_zero_points ? 3u : 2u); ++i) {
    const model::Value& value = model.value(node.inputs[i]);
    if (value.source != model::ValueSource::initializer) {
      return refuse(
          fmt::format("{} is not a constant; MatMulNBits needs constant weights, scales and zero points", value.name));
    }
    sources.push_back(value.payload);
  }
  const model::DType scale_type = model.value(node.inputs[2]).dtype;
  if (scale_type != model::DType::f32 && scale_type != model::DType::f16) {
    return refuse(fmt::format("scales of type {}; expected float32 or float16", model::dtype_name(scale_type)));
  }
  if (spec.has_zero_points && model.value(node.inputs[3]).dtype != model::DType::u8) {
    return refuse(fmt::format("zero points of type {}; expected packed uint8",
                              model::dtype_name(model.value(node.inputs[3]).dtype)));
  }
  spec.scale_type = scale_type == model::DType::f16 ? kernels::ScaleType::f16 : kernels::ScaleType::f32;
  return ok_status();
}

Status float_weight(const model::ResolvedModel& model, const model::Node& node, std::vector<model::PayloadId>& sources,
                    kernels::MatMulSpec& spec) {
  if (node.kind() != model::OpKind::mat_mul && node.kind() != model::OpKind::gemm) return ok_status();
  const model::Value& b = model.value(node.inputs[1]);
  if (b.source != model::ValueSource::initializer) return ok_status();
  const model::Shape dims = b.dims();
  if (dims.size() != 2) return ok_status();
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
      return ok_status();
  }
  spec.trans_b = node.kind() == model::OpKind::gemm && node.int_attribute("transB", 0) != 0;
  spec.k = dims[spec.trans_b ? 1 : 0];
  spec.n = dims[spec.trans_b ? 0 : 1];
  if (kernels::unsupported_reason(spec)) return ok_status();
  sources.push_back(b.payload);
  return ok_status();
}

void SharedWeights::find(const model::ResolvedModel& model, const ObjectTable& objects) {
  model_ = &model;
  objects_ = &objects;
  for (model::NodeId id = 0; id < model::NodeId(model.nodes().size()); ++id) {
    Weight weight{id, {}, {}};
    if (model.node(id).kind() != model::OpKind::mat_mul_nbits) continue;
    if (!nbits_weight(model, model.node(id), weight.sources, weight.spec).ok()) continue;
    const std::string lineage = objects.lineage(weight.sources);
    weights_.try_emplace(lineage, std::move(weight));
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
  const kernels::MatMulSpec& spec = found->second.spec;
  const model::Shape dims = model_->value(node.inputs[0]).dims();
  const int64_t blocks = (spec.k + spec.block - 1) / spec.block;
  const bool same = dims == model::Shape{spec.n, blocks * spec.block / 2} &&
                    spec.block == node.int_attribute("block_size", 128) && spec.scale_type == kernels::ScaleType::f32;
  return same ? &found->second : nullptr;
}

}  // namespace ompipe::plan
