// What a node multiplies by: which payloads its packed weight is made from, and how.
#pragma once

#include <span>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/kernels/matmul.h"
#include "ompipe/model/graph.h"

namespace ompipe::plan {

// `payloads`: B, scales, zero points; empty: the node has no weight that is packed.
struct WeightSources {
  kernels::MatMulSpec spec;
  std::vector<model::PayloadId> payloads;
};

// Of a MatMulNBits. Errors: bad_model, naming the node, when it can't be prepared.
Result<WeightSources> nbits_weight(const model::Node& node, std::span<const model::Value> values);

// Of a MatMul or Gemm with a constant float matrix B; anything else has none.
WeightSources float_weight(const model::Node& node, std::span<const model::Value> values);

}  // namespace ompipe::plan
