#include <algorithm>

#include "nodes.h"
#include "ompipe/kernels/elementwise.h"

namespace ompipe::exec {

Status run_shape(NodeContext& node) {
  if (node.measuring()) return ok_status();
  const Tensor& from = node.in(0);
  int64_t start = node.node().int_attribute("start", 0);
  if (start < 0) start += from.rank();
  start = std::clamp<int64_t>(start, 0, from.rank());
  std::copy_n(from.layout.dims.begin() + start, node.out(0).elements(), node.out(0).write<int64_t>());
  return ok_status();
}

Status run_constant_of_shape(NodeContext& node) {
  static constexpr float kZero = 0;
  Tensor value = make_constant(model::DType::f32, {}, &kZero);
  if (const model::AttributeValue* attribute = node.node().attribute("value")) {
    const auto* constant = std::get_if<model::ConstantTensor>(attribute);
    if (constant == nullptr) return node.failed("attribute value is no tensor");
    value = make_constant(constant->dtype, {}, constant->bytes.data());
  }
  return copy_elements(node, value, node.out(0).layout, node.out(0).data);
}

Status run_range(NodeContext& node) {
  const auto type = element_type(node.in(0).dtype);
  const bool supported =
      type == kernels::ElementType::f32 || type == kernels::ElementType::i32 || type == kernels::ElementType::i64;
  if (!supported) return node.failed("elements that aren't float32, int32 or int64");
  if (node.measuring()) return ok_status();
  kernels::fill_range(*type, node.in(0).data, node.in(2).data, node.out(0).elements(), node.out(0).data);
  return ok_status();
}

}  // namespace ompipe::exec
