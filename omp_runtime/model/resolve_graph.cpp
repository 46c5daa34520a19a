// The steps of resolution that look at the graph alone: kernels, identities, manifest.
#include <fmt/format.h>

#include <algorithm>

#include "ompipe/model/resolver.h"

namespace ompipe::model {
namespace {

Error refused(const Node& node, std::string reason) {
  return {.kind = ErrorKind::bad_model, .phase = "resolve", .subject = node.name, .reason = std::move(reason)};
}

const char* domain_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain.c_str(); }

const char* kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::integer:
      return "an integer";
    case AttributeKind::real:
      return "a float";
    case AttributeKind::text:
      return "a string";
    case AttributeKind::integers:
      return "integers";
    case AttributeKind::tensor:
      return "a small inline tensor";
    case AttributeKind::graph:
      return "a graph";
  }
  return "";
}

bool is_of(const AttributeValue& value, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::integer:
      return std::holds_alternative<int64_t>(value);
    case AttributeKind::real:
      return std::holds_alternative<float>(value);
    case AttributeKind::text:
      return std::holds_alternative<std::string>(value);
    case AttributeKind::integers:
      return std::holds_alternative<std::vector<int64_t>>(value);
    case AttributeKind::tensor:
      return std::holds_alternative<ConstantTensor>(value);
    case AttributeKind::graph:
      return std::holds_alternative<GraphRef>(value);
  }
  return false;
}

// Whether `values`, separated by spaces, name this one. Only integers and texts are so restricted.
bool names(std::string_view values, std::string_view value) {
  while (!values.empty()) {
    const size_t end = std::min(values.find(' '), values.size());
    if (values.substr(0, end) == value) return true;
    values.remove_prefix(std::min(end + 1, values.size()));
  }
  return false;
}

// An attribute that nobody looks at would be ignored in silence: nothing, or why it is refused.
std::string attribute_fault(const Attribute& attribute, const OpSpec& spec) {
  const auto known = std::find_if(spec.attributes.begin(), spec.attributes.end(),
                                  [&](const AttributeSpec& item) { return item.name == attribute.name; });
  if (known == spec.attributes.end()) return fmt::format("attribute {} is not supported", attribute.name);
  if (!is_of(attribute.value, known->kind))
    return fmt::format("attribute {} is not {}", attribute.name, kind_name(known->kind));
  const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value);
  if (list && list->size() > kMaxFollowedElements) {
    return fmt::format("attribute {} has {} elements, at most {} are supported", attribute.name, list->size(),
                       kMaxFollowedElements);
  }
  if (known->values.empty()) return "";
  const auto* number = std::get_if<int64_t>(&attribute.value);
  const std::string value = number ? std::to_string(*number) : std::get<std::string>(attribute.value);
  if (names(known->values, value)) return "";
  return fmt::format("attribute {} is '{}', expected one of: {}", attribute.name, value, known->values);
}

}  // namespace

Status Resolver::choose_kernels() {
  for (Node& node : data_.nodes) {
    const std::string what =
        fmt::format("operator {} (domain {}, opset {})", node.op_type, domain_name(node.domain), node.opset);
    if (node.opset == 0) return refused(node, what + ": the model does not import that domain");
    const OpSpec* spec = find_op(node.domain, node.op_type, node.opset);
    if (!spec) {
      const auto ops = all_ops();
      const bool other_version = std::any_of(ops.begin(), ops.end(), [&](const OpSpec& op) {
        return op.domain == node.domain && op.name == node.op_type;
      });
      return refused(node,
                     fmt::format("unsupported {}{}", what, other_version ? ": only other versions are known" : ""));
    }
    const int inputs = int(node.inputs.size()), outputs = int(node.outputs.size());
    if (inputs < spec->min_inputs || (spec->max_inputs >= 0 && inputs > spec->max_inputs)) {
      return refused(node, fmt::format("{} has {} inputs, expected {} to {}", what, inputs, spec->min_inputs,
                                       spec->max_inputs < 0 ? "any number" : std::to_string(spec->max_inputs)));
    }
    if (outputs == 0 || (spec->max_outputs >= 0 && outputs > spec->max_outputs)) {
      return refused(node, fmt::format("{} has {} outputs, expected at most {}", what, outputs, spec->max_outputs));
    }
    for (int i = 0; i < spec->min_inputs; ++i) {
      if (node.inputs[size_t(i)] == kNone) return refused(node, fmt::format("{} lacks its input {}", what, i));
    }
    for (const Attribute& attribute : node.attributes) {
      std::string fault = attribute_fault(attribute, *spec);
      if (node.attribute(attribute.name.c_str()) != &attribute.value)
        fault = fmt::format("attribute {} is given twice", attribute.name);
      if (!fault.empty()) return refused(node, fmt::format("{}: {}", what, fault));
    }
    node.spec = spec;
    if (std::string fault = node.is_flow() ? graph_fault(node) : std::string(); !fault.empty())
      return refused(node, fmt::format("{}: {}", what, fault));
  }
  return ok_status();
}

void Resolver::forward_uses(std::vector<ValueId>& alias) {
  auto forward = [&](ValueId& id) {
    while (id != kNone && alias[size_t(id)] != kNone) id = alias[size_t(id)];
  };
  for (Node& node : data_.nodes) {
    for (ValueId& input : node.inputs) forward(input);
  }
  for (Subgraph& graph : data_.graphs) {
    for (ValueId& output : graph.outputs) forward(output);
  }
  for (Port& output : data_.outputs) forward(output.value);
}

Status Resolver::remove_identities() {
  std::vector<ValueId> alias(data_.values.size(), kNone);
  std::vector<uint8_t> used(data_.values.size(), 0);
  for (const Node& node : data_.nodes) {
    for (ValueId input : node.inputs) {
      if (input != kNone) used[size_t(input)] = 1;
    }
  }
  for (const Subgraph& graph : data_.graphs) {
    for (ValueId output : graph.outputs) used[size_t(output)] = 1;
  }
  for (const Port& output : data_.outputs) used[size_t(output.value)] = 1;
  std::vector<NodeId> kept;
  for (size_t i = 0; i < data_.nodes.size(); ++i) {
    const Node& node = data_.nodes[i];
    if (node.kind() != OpKind::identity) {
      kept.push_back(NodeId(i));
      continue;
    }
    if (node.outputs.size() > 1 && node.outputs[1] != kNone && used[size_t(node.outputs[1])]) {
      return refused(node, "the mask of Dropout is not supported");
    }
    if (node.inputs.size() > 2 && node.inputs[2] != kNone) {
      const Value& training = data_.values[size_t(node.inputs[2])];
      const bool off = training.source == ValueSource::constant && is_integer(training.dtype) &&
                       data_.constants[size_t(training.constant)].as_int64() == std::vector<int64_t>{0};
      if (!off) return refused(node, "Dropout in training mode is not supported");
    }
    if (node.outputs[0] != kNone) alias[size_t(node.outputs[0])] = node.inputs[0];
  }
  forward_uses(alias);
  keep_nodes(kept);
  return ok_status();
}

void Resolver::build_manifest() {
  data_.manifest.assign(data_.payloads.size(), {});
  for (size_t i = 0; i < data_.payloads.size(); ++i) {
    ManifestEntry& entry = data_.manifest[i];
    entry.payload = PayloadId(i);
    entry.avoided = payload_read_[i] ? AvoidedReason::none : AvoidedReason::dead;
    entry.why = payload_read_[i] ? "read at resolution" : "no live node uses it";
  }
  auto activate = [&](ValueId id, auto why) {
    if (id == kNone) return;
    const Value& value = data_.values[size_t(id)];
    const bool stored = value.source == ValueSource::initializer || value.source == ValueSource::overridable;
    if (!stored || value.payload == kNone) return;
    ManifestEntry& entry = data_.manifest[size_t(value.payload)];
    if (entry.state == ManifestState::active) return;
    entry.state = ManifestState::active;
    entry.avoided = AvoidedReason::none;
    entry.why = why();
  };
  for (const Node& node : data_.nodes) {
    for (ValueId input : node.inputs) activate(input, [&] { return node.op_type + " " + node.name; });
  }
  for (const Subgraph& graph : data_.graphs) {
    if (graph.owner == kNone) continue;
    for (ValueId output : graph.outputs)
      activate(output, [&] { return graph.name + " of " + data_.nodes[size_t(graph.owner)].name; });
  }
  for (const Port& output : data_.outputs) activate(output.value, [&] { return "output " + output.name; });
  data_.avoided_bytes.fill(0);
  for (const ManifestEntry& entry : data_.manifest) {
    if (entry.state == ManifestState::avoided && entry.avoided != AvoidedReason::none) {
      data_.avoided_bytes[size_t(entry.avoided)] += data_.payloads[size_t(entry.payload)].length;
    }
  }
}

}  // namespace ompipe::model
