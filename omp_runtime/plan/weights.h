// Which payloads a node multiplies by, and in what form they are packed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "objects.h"

namespace ompipe::plan {

struct Weight {
  model::NodeId node = model::kNone;
  kernels::MatMulSpec spec;
  std::vector<model::PayloadId> sources;  // B, scales, zero points
};

// Of a MatMulNBits. Errors: bad_model, naming the node.
Status nbits_weight(const model::ResolvedModel& model, const model::Node& node, std::vector<model::PayloadId>& sources,
                    kernels::MatMulSpec& spec);
// Of a MatMul or Gemm with a constant float matrix B; of anything else `sources` stays empty.
Status float_weight(const model::ResolvedModel& model, const model::Node& node, std::vector<model::PayloadId>& sources,
                    kernels::MatMulSpec& spec);

// Every packed 4-bit weight, by what its bytes are: a table earlier in the sequence may be the same bytes. What is
// wrong with a weight is said when its node's turn comes. Part of build_plan.
class SharedWeights {
 public:
  void find(const model::ResolvedModel& model, const ObjectTable& objects);
  // The weight that a GatherBlockQuantized's table is, row for column; null if there is none.
  const Weight* of_table(const model::Node& node) const;

 private:
  const model::ResolvedModel* model_ = nullptr;
  const ObjectTable* objects_ = nullptr;
  std::map<std::string, Weight> weights_;  // by the lineage of their sources
};

}  // namespace ompipe::plan
