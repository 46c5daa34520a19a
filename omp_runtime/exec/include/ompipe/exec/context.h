// What a caller supplies for one invocation, and what it gets back: inputs, KV-caches, the outputs wanted, the outputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ompipe/exec/tensor.h"

namespace ompipe::exec {

struct NamedTensor {
  std::string name;
  HeldTensor tensor;
};

// One key or value cache of the caller's: memory laid out [batch, heads, capacity, head_size], of which the first
// `length` positions are filled. A run reads them as the graph input `past` and appends the new ones in place as the
// graph output `present`; nothing is copied, and `present` is not among the outputs. Elements have the input's dtype.
struct KvBinding {
  std::string past, present;
  HeldBytes memory;
  int64_t batch = 1, heads = 0, capacity = 0, head_size = 0;
  int64_t length = 0;  // advanced by a run that succeeds
};

// Belongs to one invocation from the call that submits it until its end; no other thread touches it meanwhile, and it
// keeps what it feeds. Reused for the next run without allocation when names and numbers of tensors stay.
struct RuntimeContext {
  std::vector<NamedTensor> inputs;  // row-major
  std::vector<KvBinding> caches;
  std::vector<std::string> wanted;  // outputs to return; empty: all of them

  // After a run that succeeded: the wanted outputs, in the model's order. Their memory lives as long as their owners.
  std::vector<NamedTensor> outputs;

  const HeldTensor* output(std::string_view name) const {  // null: there is none of that name
    for (const NamedTensor& item : outputs) {
      if (item.name == name) return &item.tensor;
    }
    return nullptr;
  }
};

}  // namespace ompipe::exec
