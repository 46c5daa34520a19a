// Concrete shapes of every value of a model for one set of input shapes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/model/infer.h"
#include "ompipe/model/resolved_model.h"

namespace ompipe::model {

// What the caller feeds for one graph input.
struct BoundInput {
  DType dtype = DType::undefined;  // undefined: not fed, which only an overridable input allows
  std::span<const int64_t> dims;
  const void* contents = nullptr;  // optional: the elements of a small integer input, when shapes may depend on them
};

// A value as a run has found it.
struct FoundValue {
  ValueId value = kNone;
  std::span<const int64_t> dims;
  const void* contents = nullptr;  // optional, as above
};

// Keeps its storage: a second bind allocates nothing. The model must outlive it. Not thread-safe; one for each
// invocation slot.
class ShapeBinder {
 public:
  explicit ShapeBinder(const ResolvedModel& model);

  // Computes the shapes of all values. `inputs` has one entry for each of model.inputs(). Errors (usage, phase "bind"):
  // a missing input, a wrong dtype or rank, a dimension that differs from the model's number or from what another input
  // gave the same symbol, shapes that an operator refuses. After an error no shape may be asked for.
  Status bind(std::span<const BoundInput> inputs);

  // False only where the shape depends on contents that aren't known before the run.
  bool known(ValueId id) const { return known_[size_t(id)] != 0; }
  // The dimensions; the value's shape must be known.
  std::span<const int64_t> shape(ValueId id) const { return {&dims_[size_t(id) * kMaxRank], facts_[size_t(id)].rank}; }
  int64_t elements(ValueId id) const { return elements_[size_t(id)]; }
  DType dtype(ValueId id) const { return facts_[size_t(id)].dtype; }
  uint64_t bytes(ValueId id) const { return uint64_t(elements(id)) * dtype_bytes(dtype(id)); }

  // Elements of a small integer value when they follow from the shapes (Shape, Gather, Cast...) or constants; else
  // empty. An empty tensor's contents are empty too. Every Extent is a number.
  std::span<const Extent> contents(ValueId id) const;

  // While a run goes on, of a node that bind left open: the shapes of its outputs, from its inputs as they are now.
  // What the inputs contain counts until forget or the next call. Errors: bad_model, phase "run".
  Status infer(NodeId node, std::span<const FoundValue> inputs);
  void forget();
  const TensorFact& fact(ValueId id) const { return facts_[size_t(id)]; }

  // The size that the last bind gave a dimension of that name; kNone when no input has it.
  int64_t symbol_size(std::string_view symbol) const;

 private:
  struct Symbol {
    std::string name;
    int64_t size = kNone;
    int32_t from = kNone;  // input that gave it
  };
  struct InputDim {  // one dimension of one input
    int64_t number = kNone;
    int32_t symbol = kNone;
  };
  Status bind_input(size_t index, const BoundInput& input);
  void finish(ValueId id);

  const ResolvedModel& model_;
  void follow(TensorFact& fact, const void* contents, ContentsPool& pool);

  ContentsPool fixed_pool_, pool_, found_pool_;  // constants; this bind; this infer
  std::vector<ValueId> found_;                   // whose contents are in found_pool_
  std::vector<TensorFact> facts_;
  std::vector<TensorFact> defaults_;  // by input: what an overridable one is when it is not fed
  std::vector<int64_t> dims_;         // kMaxRank for each value
  std::vector<int64_t> elements_;
  std::vector<uint8_t> known_;
  std::vector<Symbol> symbols_;
  std::vector<std::vector<InputDim>> input_dims_;
};

}  // namespace ompipe::model
