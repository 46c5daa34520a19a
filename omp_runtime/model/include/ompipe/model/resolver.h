// Turns the graph of a file into a frozen ResolvedModel: what is dead goes, what is known is folded, every node gets
// its kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/model/infer.h"
#include "ompipe/model/reader.h"
#include "ompipe/model/resolved_model.h"

namespace ompipe::model {

// A builder that freeze() consumes. Not thread-safe. The steps are public so that each can be looked at alone;
// `resolve` calls them in their only right order.
class Resolver {
 public:
  explicit Resolver(ModelGraph graph);

  // The whole resolution. Errors: bad_model, phase "resolve" (unknown operator with node, domain, name and version; a
  // value that nothing produces; a cycle; a dtype, rank or shape that an operator does not take), environment (a small
  // constant can't be read).
  Status resolve();

  Status sort_nodes();            // topological order, the file's where it is one; drops nothing
  void remove_dead();             // nodes that no output needs
  Status choose_kernels();        // the row of every node
  Status read_small_constants();  // what shapes are computed from, and inline scalars
  Status remove_identities();     // Identity; Dropout at inference
  Status infer_and_fold();        // dtypes, shapes; integer nodes whose results are known become constants
  void build_manifest();          // which payloads are read, and for which node

  // Fails, with bad_model and phase "freeze", unless every node has a kernel, every value that is used has a producer
  // and a type, every payload that is needed has a descriptor, and the manifest names each of them.
  Result<std::shared_ptr<const ResolvedModel>> freeze() &&;

 private:
  bool is_small_constant(ValueId id, OpKind consumer) const;
  Status read_constant(ValueId id);
  void keep_nodes(const std::vector<NodeId>& order);
  NodeId consumer_beside(NodeId user, NodeId producer) const;
  void mark_live(NodeId begin, NodeId end, std::vector<uint8_t>& live) const;
  std::string graph_fault(const Node& node) const;
  void forward_uses(std::vector<ValueId>& alias);
  void keep_inferred(ValueId id, const std::vector<TensorFact>& facts, const SymbolTable& symbols);
  Status check_outputs(const std::vector<TensorFact>& facts, const SymbolTable& symbols);
  Status check_frozen() const;
  Status check_operand(ValueId id, NodeId before, const std::string& user) const;

  Resolution data_;
  std::vector<uint8_t> payload_read_;  // by PayloadId: resolution read it, so nothing else has to
  std::vector<int32_t> read_as_;       // by PayloadId: the constant it was first read into
};

// read_model, resolve, freeze.
Result<std::shared_ptr<const ResolvedModel>> open_model(const std::string& path, const ReadOptions& options);

}  // namespace ompipe::model
