// The steps of resolution that look at the graph alone: order, liveness, kernels, identities, manifest.
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

// Rebuilds the nodes in a new order (or fewer) and tells the values where their producers are now.
void reorder(const std::vector<NodeId>& order, std::vector<Node>& nodes, std::vector<Value>& values) {
  std::vector<Node> kept;
  kept.reserve(order.size());
  for (NodeId id : order) kept.push_back(std::move(nodes[size_t(id)]));
  nodes = std::move(kept);
  for (Value& value : values) value.producer = kNone;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (ValueId output : nodes[i].outputs) {
      if (output != kNone && values[size_t(output)].source == ValueSource::node)
        values[size_t(output)].producer = NodeId(i);
    }
  }
}

}  // namespace

Status Resolver::sort_nodes() {
  const size_t count = data_.nodes.size();
  std::vector<int32_t> waiting(count, 0);
  std::vector<std::vector<NodeId>> consumers(count);
  bool sorted = true;
  for (size_t i = 0; i < count; ++i) {
    for (ValueId input : data_.nodes[i].inputs) {
      const NodeId producer = input == kNone ? kNone : data_.values[size_t(input)].producer;
      if (producer == kNone) continue;
      sorted = sorted && producer < NodeId(i);
      ++waiting[i];
      consumers[size_t(producer)].push_back(NodeId(i));
    }
  }
  if (sorted) return ok_status();
  std::vector<NodeId> order;
  order.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) order.push_back(NodeId(i));
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (NodeId consumer : consumers[size_t(order[next])]) {
      if (--waiting[size_t(consumer)] == 0) order.push_back(consumer);
    }
  }
  if (order.size() != count) {
    const size_t stuck =
        size_t(std::find_if(waiting.begin(), waiting.end(), [](int32_t n) { return n > 0; }) - waiting.begin());
    return refused(data_.nodes[stuck], fmt::format("{} nodes depend on each other in a cycle", count - order.size()));
  }
  reorder(order, data_.nodes, data_.values);
  return ok_status();
}

void Resolver::remove_dead() {
  std::vector<uint8_t> live(data_.nodes.size(), 0);
  auto mark = [&](ValueId id) {
    const NodeId producer = id == kNone ? kNone : data_.values[size_t(id)].producer;
    if (producer != kNone) live[size_t(producer)] = 1;
  };
  for (const Port& output : data_.outputs) mark(output.value);
  std::vector<NodeId> order;
  for (size_t i = data_.nodes.size(); i-- > 0;) {
    if (!live[i]) continue;
    order.push_back(NodeId(i));
    for (ValueId input : data_.nodes[i].inputs) mark(input);
  }
  std::reverse(order.begin(), order.end());
  if (order.size() != data_.nodes.size()) reorder(order, data_.nodes, data_.values);
}

void Resolver::place_nodes() {
  if (!placer_) return;
  for (Node& node : data_.nodes) node.placement = placer_->place(node, data_.values, data_.payloads);
}

Status Resolver::choose_kernels() {
  for (Node& node : data_.nodes) {
    const std::string what =
        fmt::format("operator {} (domain {}, opset {})", node.op_type, domain_name(node.domain), node.opset);
    if (node.opset == 0) return refused(node, what + ": the model does not import that domain");
    const OpSpec* spec = node.has_subgraph ? nullptr : find_op(node.domain, node.op_type, node.opset);
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
  if (kept.size() != data_.nodes.size()) reorder(kept, data_.nodes, data_.values);
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
  for (const Port& output : data_.outputs) activate(output.value, [&] { return "output " + output.name; });
  data_.avoided_bytes.fill(0);
  for (const ManifestEntry& entry : data_.manifest) {
    if (entry.state == ManifestState::avoided && entry.avoided != AvoidedReason::none) {
      data_.avoided_bytes[size_t(entry.avoided)] += data_.payloads[size_t(entry.payload)].length;
    }
  }
}

}  // namespace ompipe::model
