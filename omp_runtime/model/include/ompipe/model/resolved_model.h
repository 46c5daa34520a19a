// The frozen result of resolution: what runs, in which order, which bytes it needs and why.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/io/file_handle.h"
#include "ompipe/model/graph.h"
#include "ompipe/model/payload.h"
#include "ompipe/model/types.h"

namespace ompipe::model {

// A file that payloads lie in. Opened once; everything later goes through the handle.
struct SourceFile {
  std::string location;  // as external_data names it, normalised; empty for the .onnx file
  std::string path;      // as it was named
  uint64_t bytes = 0;
  std::string sha1;  // 40 hex digits of the whole file when the model states them; for `verify`, never an identity
  std::shared_ptr<const io::FileHandle> handle;
};

// A graph input or output. An output's value may be a graph input, an initializer or a constant: identities are
// removed.
struct Port {
  std::string name;
  ValueId value = kNone;
  DType dtype = DType::undefined;
  SymbolicShape shape;  // declared for inputs; inferred, else declared, for outputs
  bool has_shape = false;
};

struct ModelMetadata {
  std::string path;
  uint64_t bytes = 0;  // of the .onnx file
  int64_t ir_version = 0;
  std::string producer_name, producer_version, domain, graph_name;
  int64_t model_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;  // domain, version; "" is ai.onnx
  std::map<std::string, std::string> properties;        // metadata_props
  int64_t nodes = 0, initializers = 0;                  // as the file states them, before anything was removed
};

// The inputs and outputs by which a decoder is recognised, for --prompt and --generate. Indices into inputs() and
// outputs().
struct DecoderSignature {
  struct Cache {
    int32_t past_key = kNone, past_value = kNone, present_key = kNone, present_value = kNone;
  };
  int32_t input_ids = kNone, attention_mask = kNone;
  int32_t position_ids = kNone;  // kNone: the model has none
  int32_t logits = kNone;
  std::vector<Cache> caches;  // by layer
  int64_t kv_heads = 0, head_size = 0;
  DType cache_dtype = DType::undefined;
};

// Everything a resolution found. Filled by Resolver, never seen outside the model layer but through ResolvedModel.
struct Resolution {
  ModelMetadata metadata;
  std::vector<SourceFile> files;  // [0] is the .onnx file
  std::vector<Payload> payloads;
  std::vector<ManifestEntry> manifest;  // by PayloadId
  std::vector<ConstantTensor> constants;
  std::vector<Value> values;
  std::vector<Node> nodes;  // live ones, in topological order
  std::vector<Subgraph> graphs;
  std::vector<Port> inputs, outputs;
  std::optional<DecoderSignature> decoder;
  std::vector<std::string> notes;           // what was ignored, for inspect
  std::array<uint64_t, 5> avoided_bytes{};  // by AvoidedReason
  uint64_t resolve_read_bytes = 0;
};

// Only a Resolver can make one, so every ResolvedModel has been frozen.
class FrozenKey {
  friend class Resolver;
  FrozenKey() = default;
};

// Immutable. Shared by plans, sessions and reports; safe to read from any thread.
class ResolvedModel {
 public:
  ResolvedModel(FrozenKey, Resolution data) : data_(std::move(data)) {}

  const ModelMetadata& metadata() const { return data_.metadata; }
  const std::vector<SourceFile>& files() const { return data_.files; }
  const std::vector<Payload>& payloads() const { return data_.payloads; }
  const std::vector<ManifestEntry>& manifest() const { return data_.manifest; }
  const std::vector<ConstantTensor>& constants() const { return data_.constants; }
  const std::vector<Value>& values() const { return data_.values; }
  const std::vector<Node>& nodes() const { return data_.nodes; }
  // By SubgraphId; those whose owner is kNone are of dead nodes.
  const std::vector<Subgraph>& graphs() const { return data_.graphs; }
  const std::vector<Port>& inputs() const { return data_.inputs; }
  const std::vector<Port>& outputs() const { return data_.outputs; }
  const std::optional<DecoderSignature>& decoder() const { return data_.decoder; }
  const std::vector<std::string>& notes() const { return data_.notes; }

  const Value& value(ValueId id) const { return data_.values[size_t(id)]; }
  const Node& node(NodeId id) const { return data_.nodes[size_t(id)]; }
  const Subgraph& graph(SubgraphId id) const { return data_.graphs[size_t(id)]; }
  const Payload& payload(PayloadId id) const { return data_.payloads[size_t(id)]; }

  // File bytes that will not be read, by reason. `none` counts nothing.
  uint64_t avoided_bytes(AvoidedReason reason) const { return data_.avoided_bytes[size_t(reason)]; }
  // File bytes of small constants that resolution itself read.
  uint64_t resolve_read_bytes() const { return data_.resolve_read_bytes; }
  // File bytes of all active payloads, shared ones once.
  uint64_t source_bytes() const;

  // The payload, if its manifest entry is active. Whoever reads payload bytes asks here first.
  // Errors: bad_model, phase "manifest", naming the tensor and why it isn't read.
  Result<const Payload*> readable(PayloadId id) const;

  // Index into inputs() or outputs(); kNone when there is none of that name.
  int32_t input_index(std::string_view name) const;
  int32_t output_index(std::string_view name) const;

 private:
  const Resolution data_;
};

}  // namespace ompipe::model
