// Small models, written as ONNX and planned; their weights inline, or in a data file with chosen offsets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ompipe/plan/plan.h"
#include "onnx_builder.h"

namespace ompipe::test {

using PlanPointer = std::shared_ptr<const plan::PreparedExecutionPlan>;

Result<PlanPointer> try_plan(const ModelSpec& spec, const plan::PlanOptions& options = {});
// A failure fails the test. `data`: the bytes of weights.bin beside the model. Its files can be read as long as the
// plan lives.
PlanPointer plan_of(const ModelSpec& spec, const plan::PlanOptions& options = {}, const std::string& data = {});

// `bytes` of weights.bin from `offset` on, `digest` if it isn't empty.
Tensor external(std::string name, model::DType dtype, std::vector<int64_t> dims, uint64_t offset, uint64_t bytes,
                const std::string& digest = {});

// "x" of [n, width] goes through MatMuls with float weights "w0", "w1"... of [width, width]: nodes "n0", "n1"...
ModelSpec matmul_chain(int count, int64_t width);

// One MatMulNBits "q" of "x" [m, k] with "b", "scales" and, if asked, "zeros"; 4 bits, blocks of 32, weights of all
// zero bytes.
ModelSpec nbits_model(int64_t k, int64_t n, bool zero_points);

// A GatherBlockQuantized "embedding" of "ids" [n] from "table" and, as "y", the product of its rows with the same
// bytes: a head "q" over "b", both at offset 0 of weights.bin, with shared "scales" and zero points. Blocks of 32.
ModelSpec tied_model(int64_t width, int64_t rows, bool zero_points);

// The object of that name; a failure fails the test.
plan::ObjectId object_named(const plan::PreparedExecutionPlan& plan, const std::string& name);

}  // namespace ompipe::test
