// One invocation as the command line drives it: a context, and the steps (RunAsync calls) that it is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/cli/options.h"
#include "ompipe/exec/context.h"
#include "ompipe/model/resolved_model.h"

namespace ompipe::cli {

// Belongs to one thread.
class Invocation {
 public:
  virtual ~Invocation() = default;
  // Sets the context's inputs for the next step; false when there is none.
  virtual bool begin_step() = 0;
  // After a step that succeeded: the token that it gave, if it is a decoder's. Errors: bad_model for logits that can't
  // be read.
  virtual Result<std::optional<int64_t>> end_step() = 0;
  // Instead of running the step that has begun: it counts as done, and its token, which only a run can tell, as 0.
  virtual void pretend_step() = 0;
  exec::RuntimeContext context;
};

// Makes the invocations of a run: all of them alike, each with a state of its own.
class InvocationMaker {
 public:
  // Reads files, checks the prompt. Errors: those of make_inputs; usage for --prompt and its like on a model that is no
  // decoder.
  static Result<InvocationMaker> make(std::shared_ptr<const model::ResolvedModel> model, const RunCommand& command);
  // Errors: cannot_fit when the system has no memory for the caches.
  Result<std::unique_ptr<Invocation>> invocation() const;

 private:
  std::shared_ptr<const model::ResolvedModel> model_;
  std::vector<exec::NamedTensor> inputs_;  // of a plain invocation
  bool decoder_ = false;
  std::vector<int64_t> prompt_;
  int64_t tokens_ = 1;
};

// A decoder's greedy generation: the first step takes the whole prompt, each later one the token before it. KV-caches
// of prompt + tokens positions, appended in place, belong to the invocation. Errors as InvocationMaker::invocation.
Result<std::unique_ptr<Invocation>> make_decoder_invocation(const model::ResolvedModel& model,
                                                            const std::vector<int64_t>& prompt, int64_t tokens);

// The index of the first largest element of the last row of [.., rows, width] logits (float32, float16 or bfloat16);
// NaN is smaller than everything. Errors: bad_model for another dtype, or no element.
Result<int64_t> greedy_token(const exec::Tensor& logits);

}  // namespace ompipe::cli
