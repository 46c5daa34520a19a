// What a node multiplies by: which payloads its packed weight is made from, and how.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/kernels/matmul.h"
#include "ompipe/model/resolved_model.h"

namespace ompipe::plan {

// `payloads`: B, scales, zero points; empty: the node has no weight that is packed. `spec` is of accuracy_level 0,
// whatever the node's (accuracy_level.h).
struct WeightSources {
  kernels::MatMulSpec spec;
  std::vector<model::PayloadId> payloads;
};

// Of a MatMulNBits. Errors: bad_model, naming the node, when it can't be prepared.
Result<WeightSources> nbits_weight(const model::Node& node, std::span<const model::Value> values);

// Of a MatMul or Gemm with a constant float matrix B; anything else has none.
WeightSources float_weight(const model::Node& node, std::span<const model::Value> values);

// Of a MatMulInteger. Errors: bad_model, naming the node, when B isn't a constant matrix.
Result<WeightSources> integer_weight(const model::Node& node, std::span<const model::Value> values);

// Of a MatMul or Gemm without a packed weight: null, or a static text that says why no kernel runs it.
const char* why_unpacked_fails(const model::Node& node, std::span<const model::Value> values);

class ObjectTable;

struct Weight {
  model::NodeId node = model::kNone;
  WeightSources of;
};

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
