// Turns the graph of a file into a frozen ResolvedModel: what is dead goes, what is known is folded, every node gets its kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/model/infer.h"
#include "ompipe/model/reader.h"
#include "ompipe/model/resolved_model.h"

namespace ompipe::model {

// A builder that freeze() consumes. Not thread-safe.
class Resolver {
 public:
  explicit Resolver(ModelGraph graph);

  // The whole resolution, in order; the steps below. Errors: bad_model (unknown operator with node, domain, name and version; a
  // value that nothing produces; a cycle; a dtype, rank or shape that an operator does not take), environment (a small constant
  // can't be read).
  Status resolve();

  Status sort_nodes();             // topological order; drops nothing
  void remove_dead();              // nodes that no output needs
  Status choose_kernels();         // the row of every node
  void remove_identities();        // Identity, Dropout at inference
  Status read_small_constants();   // scalars and shape operands up to 4 KiB
  Status infer_and_fold();         // dtypes, shapes; integer nodes whose results are known become constants
  void build_manifest();           // which payloads are read, and for which node

  // Fails, with bad_model and phase "freeze", unless every node has a kernel, every value that is used has a producer, every
  // payload that is needed has a descriptor, and the manifest covers every payload.
  Result<std::shared_ptr<const ResolvedModel>> freeze() &&;

 private:
  Result<std::vector<uint8_t>> read_payload(PayloadId id);
  bool wants_contents(ValueId id, const Node& node, size_t input) const;
  Status infer_node(NodeId id, InferContext& context);
  void replace_uses(ValueId from, ValueId to);
  void fold(ValueId id, const TensorFact& fact);
  Resolution data_;
  std::vector<uint8_t> payload_read_;  // by PayloadId: resolution read it, so nothing else has to
};

// read_model, resolve, freeze.
Result<std::shared_ptr<const ResolvedModel>> open_model(const std::string& path, const ReadOptions& options);

}  // namespace ompipe::model
