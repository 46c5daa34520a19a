#include "ompipe/plan/device_placer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ompipe/device/arena.h"
#include "ompipe/plan/accuracy_level.h"
#include "ompipe/plan/plan.h"
#include "weights.h"

namespace ompipe::plan {
namespace {

bool has_operator(const model::Node& node) {
  return (node.domain.empty() && node.op_type == "MatMul") ||
         (node.domain == "com.microsoft" && node.op_type == "MatMulNBits");
}

// `*` stands for any characters, as many as it takes.
bool matches(std::string_view pattern, std::string_view name) {
  size_t at = 0, star = std::string_view::npos, resume = 0, i = 0;
  while (i < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = i;
    } else if (at < pattern.size() && pattern[at] == name[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++resume;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

bool is_constant(const model::Value& value) {
  return value.source == model::ValueSource::initializer || value.source == model::ValueSource::constant;
}

}  // namespace

DevicePlacer::DevicePlacer(const device::Backend& backend, DeviceRule rule, kernels::Isa isa, uint64_t memory_bytes)
    : backend_(backend), rule_(std::move(rule)), isa_(isa), memory_bytes_(memory_bytes) {}

bool DevicePlacer::asked(const model::Node& node) const {
  return std::any_of(rule_.nodes.begin(), rule_.nodes.end(), [&](const std::string& pattern) {
    return pattern == node.op_type || matches(pattern, node.name);
  });
}

model::Placement DevicePlacer::place(const model::Node& node, std::span<const model::Value> values,
                                     std::span<const model::Payload> payloads) const {
  const bool named = !rule_.nodes.empty();
  if (named ? !asked(node) : !has_operator(node)) return {};
  const auto refuse = [](std::string reason) { return model::Placement{false, std::move(reason)}; };
  if (!has_operator(node)) return refuse(fmt::format("the device has no {}", node.op_type));
  const bool nbits = node.op_type == "MatMulNBits";
  if (node.inputs.size() < (nbits ? 3u : 2u) || std::any_of(node.inputs.begin(), node.inputs.begin() + (nbits ? 3 : 2),
                                                            [](model::ValueId id) { return id == model::kNone; })) {
    return refuse("it lacks inputs");
  }
  WeightSources weight;
  if (nbits) {
    Result<WeightSources> found = nbits_weight(node, values);
    if (!found.ok()) return refuse(found.error().reason);
    weight = *std::move(found);
  } else {
    weight = float_weight(node, values);
  }
  // Products of two activations are nobody's wish unless they are named.
  if (weight.payloads.empty()) return named ? refuse("it has no constant weight that is packed") : model::Placement{};
  if (nbits && node.inputs.size() > 5 && node.inputs[5] != model::kNone) return refuse("it has a bias");
  if (is_constant(values[size_t(node.inputs[0])])) return refuse("its first input is a constant");
  weight.spec.accuracy_level = accuracy_level(node);
  const auto layout = kernels::make_layout(weight.spec, isa_);
  if (!layout || !backend_.computes(*layout)) return refuse("the device can't use the weight's layout");
  uint64_t needed = device::Arena::rounded_bytes(uint64_t(layout->packed_bytes));
  if (rule_.pack == DevicePack::on_device && backend_.packs(*layout)) {
    uint64_t source_bytes = 0;
    for (model::PayloadId id : weight.payloads) source_bytes += payloads[size_t(id)].bytes() + kernels::kAlignmentBytes;
    needed += device::Arena::rounded_bytes(source_bytes);
  }
  if (needed > memory_bytes_)
    return refuse(fmt::format("its weight takes {} bytes on the device, which has {}", needed, memory_bytes_));
  return {true, {}};
}

}  // namespace ompipe::plan
