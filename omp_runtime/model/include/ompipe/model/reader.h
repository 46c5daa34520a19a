// From an .onnx file to a graph whose tensors are payload descriptors: nothing but metadata is read.
#pragma once

#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/model/graph.h"
#include "ompipe/model/payload.h"
#include "ompipe/model/resolved_model.h"

namespace ompipe::model {

// How deep graphs may stand in one another, the main graph apart.
inline constexpr int kDeepestSubgraph = 8;

struct ReadOptions {
  // A trusted list of payload digests, which wins over the model's own checksums. Empty: none; then a list beside the
  // model (its name ending in .digests) only adds slice hashes, and only where they fold to the digest that the model
  // itself states.
  std::string digests_path;
};

// A model as its file states it. Nodes stand in the file's order; Constant nodes have become initializers.
struct ModelGraph {
  ModelMetadata metadata;
  std::vector<SourceFile> files;  // [0] is the .onnx file
  std::vector<Payload> payloads;
  std::vector<ConstantTensor> constants;
  std::vector<Value> values;
  std::vector<Node> nodes;  // of all graphs; see Subgraph
  std::vector<Subgraph> graphs;
  std::vector<Port> inputs,
      outputs;  // initializers that are inputs too are inputs when the IR version lets the caller feed them
  std::vector<std::string> notes;
};

// Opens and walks a model. Every payload's range has been checked against its file; no byte of one has been touched.
// Errors: environment (missing, unreadable, a directory), bad_model (damaged protobuf, with the offset in the .onnx
// file; a tensor whose length, range, dims or location is wrong, with tensor, file, range and what was there).
Result<ModelGraph> read_model(const std::string& path, const ReadOptions& options);

}  // namespace ompipe::model
