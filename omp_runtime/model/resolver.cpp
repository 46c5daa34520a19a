#include "ompipe/model/resolver.h"

#include <fmt/format.h>

#include <algorithm>

#include "decoder_signature.h"

namespace ompipe::model {
namespace {

Error incomplete(std::string subject, std::string reason) {
  return {.kind = ErrorKind::bad_model, .phase = "freeze", .subject = std::move(subject), .reason = std::move(reason)};
}

}  // namespace

Resolver::Resolver(ModelGraph graph) {
  data_.metadata = std::move(graph.metadata);
  data_.files = std::move(graph.files);
  data_.payloads = std::move(graph.payloads);
  data_.constants = std::move(graph.constants);
  data_.values = std::move(graph.values);
  data_.nodes = std::move(graph.nodes);
  data_.graphs = std::move(graph.graphs);
  data_.inputs = std::move(graph.inputs);
  data_.outputs = std::move(graph.outputs);
  data_.notes = std::move(graph.notes);
  payload_read_.assign(data_.payloads.size(), 0);
  read_as_.assign(data_.payloads.size(), kNone);
}

Status Resolver::resolve() {
  if (Status done = sort_nodes(); !done) return done;
  remove_dead();
  if (Status done = choose_kernels(); !done) return done;
  if (Status done = read_small_constants(); !done) return done;
  if (Status done = remove_identities(); !done) return done;
  if (Status done = infer_and_fold(); !done) return done;
  remove_dead();
  build_manifest();
  return ok_status();
}

Status Resolver::check_operand(ValueId id, NodeId before, const std::string& user) const {
  if (id < 0 || size_t(id) >= data_.values.size()) return incomplete(user, "a value that doesn't exist");
  const Value& value = data_.values[size_t(id)];
  if (value.dtype == DType::undefined)
    return incomplete(value.name, fmt::format("no element type is known, {} needs it", user));
  switch (value.source) {
    case ValueSource::node:
      if (value.producer < 0 || value.producer >= before) {
        return incomplete(value.name, fmt::format("nothing that runs before {} produces it", user));
      }
      break;
    case ValueSource::graph_input:
      if (std::none_of(data_.inputs.begin(), data_.inputs.end(), [&](const Port& port) { return port.value == id; })) {
        return incomplete(value.name, "graph input without a port");
      }
      break;
    case ValueSource::body_input:
      break;
    case ValueSource::constant:
      if (value.constant < 0 || size_t(value.constant) >= data_.constants.size()) {
        return incomplete(value.name, fmt::format("constant without elements, {} needs it", user));
      }
      break;
    case ValueSource::initializer:
    case ValueSource::overridable:
      if (value.source == ValueSource::overridable && value.constant != kNone) break;
      if (value.payload < 0 || size_t(value.payload) >= data_.payloads.size()) {
        return incomplete(value.name, fmt::format("tensor of {} without a payload descriptor, {} needs it",
                                                  dtype_name(value.dtype), user));
      }
      if (size_t(value.payload) >= data_.manifest.size() ||
          data_.manifest[size_t(value.payload)].state != ManifestState::active) {
        return incomplete(value.name, fmt::format("the manifest does not let {} read it", user));
      }
      break;
  }
  return ok_status();
}

Status Resolver::check_frozen() const {
  if (data_.manifest.size() != data_.payloads.size()) {
    return incomplete(data_.metadata.path, fmt::format("resolution is incomplete: {} of {} payloads in the manifest",
                                                       data_.manifest.size(), data_.payloads.size()));
  }
  for (size_t i = 0; i < data_.nodes.size(); ++i) {
    const Node& node = data_.nodes[i];
    if (!node.spec) return incomplete(node.name, fmt::format("no kernel has been chosen for {}", node.op_type));
    for (ValueId input : node.inputs) {
      if (input == kNone) continue;
      if (Status right = check_operand(input, NodeId(i), node.name); !right) return right;
    }
  }
  for (const Subgraph& graph : data_.graphs) {
    for (ValueId output : graph.outputs) {
      if (graph.owner == kNone) break;
      if (Status right = check_operand(output, graph.end, graph.name); !right) return right;
    }
  }
  for (const Port& output : data_.outputs) {
    if (Status right = check_operand(output.value, NodeId(data_.nodes.size()), "output " + output.name); !right)
      return right;
  }
  return ok_status();
}

Result<std::shared_ptr<const ResolvedModel>> Resolver::freeze() && {
  if (Status right = check_frozen(); !right) return right.error();
  data_.decoder = find_decoder_signature(data_);
  return std::shared_ptr<const ResolvedModel>(std::make_shared<ResolvedModel>(FrozenKey(), std::move(data_)));
}

Result<std::shared_ptr<const ResolvedModel>> open_model(const std::string& path, const ReadOptions& options) {
  auto graph = read_model(path, options);
  if (!graph) return graph.error();
  auto in_file = [&](Error error) {
    if (error.file.empty()) error.file = path;
    return error;
  };
  Resolver resolver(std::move(*graph));
  if (Status resolved = resolver.resolve(); !resolved) return in_file(resolved.error());
  auto frozen = std::move(resolver).freeze();
  if (!frozen) return in_file(frozen.error());
  return frozen;
}

}  // namespace ompipe::model
