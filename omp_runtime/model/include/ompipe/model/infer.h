// Shape and type inference of one node, written once for symbolic shapes (resolution) and concrete ones (binding).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ompipe/model/graph.h"

namespace ompipe::model {

inline constexpr int kMaxRank = 8;
// Integer contents are followed up to this many elements: shapes, axes, lengths.
inline constexpr size_t kMaxFollowedElements = 64;

// No tensor may have more elements; keeps every product of elements and bytes within 64 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

// A dimension or an integer element: a number, an interned symbol, or unknown.
struct Extent {
  static constexpr int32_t kNumber = 0, kUnknown = -1;  // symbols are above 0
  int64_t value = 0;
  int32_t symbol = kNumber;

  bool known() const { return symbol == kNumber; }
  bool is(int64_t number) const { return known() && value == number; }
  friend bool operator==(const Extent& a, const Extent& b) {  // unknown is not even itself
    return a.symbol == b.symbol && a.symbol != kUnknown && (a.symbol != kNumber || a.value == b.value);
  }
};
inline Extent unknown_extent() { return {0, Extent::kUnknown}; }

// What is known about a value. Contents belong to a ContentsPool or a constant and live as long as it.
struct TensorFact {
  DType dtype = DType::undefined;
  bool has_shape = false;
  uint8_t rank = 0;
  std::array<Extent, kMaxRank> dims;
  const Extent* contents = nullptr;  // row-major elements of an integer tensor; null: not followed
  uint32_t content_count = 0;

  bool shape_known() const;     // every dimension is a number
  bool contents_known() const;  // every element is a number
  Extent count() const;         // number of elements; unknown unless every dimension is a number
  std::string shape_text(const class SymbolTable* symbols) const;
};

// Integers that a node is given by attribute or input, as axes and sizes are.
struct Integers {
  bool given = false;  // there is an attribute or an input
  bool known = false;  // and its numbers are known
  int count = 0;
  std::array<int64_t, kMaxFollowedElements> values{};
};

// Names of symbols, and expressions over them; "past_length" + "length" is one symbol of that text. Not thread-safe.
class SymbolTable {
 public:
  Extent intern(std::string_view name);
  const std::string& name(int32_t symbol) const { return names_[size_t(symbol) - 1]; }
  std::string text(Extent extent) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> ids_;
};

// Arrays of elements that are all given up at once; keeps its blocks, so that a second round allocates nothing.
class ContentsPool {
 public:
  Extent* take(size_t count);
  void reset() { block_ = used_ = 0; }

 private:
  static constexpr size_t kBlock = 4096;
  std::vector<std::unique_ptr<Extent[]>> blocks_;
  size_t block_ = 0, used_ = 0;
};

// The view that one inference function has of its node. `symbols` is null when all input shapes are numbers: arithmetic
// on what isn't one then gives unknown. Functions call `fail` with what was found and what was expected.
class InferContext {
 public:
  InferContext(TensorFact* facts, SymbolTable* symbols, ContentsPool& pool)
      : facts_(facts), symbols_(symbols), pool_(pool) {}

  // Runs the node's inference function; false: `reason` says why. The node must have a spec.
  bool run(const Node& node);
  const std::string& reason() const { return reason_; }

  const Node& node() const { return *node_; }
  int inputs() const { return int(node_->inputs.size()); }
  int outputs() const { return int(node_->outputs.size()); }
  bool has(int input) const;
  const TensorFact& in(int input) const;  // `input` must be there
  TensorFact& out(int output);            // an absent output is written to a scratch fact
  const SymbolTable* symbols() const { return symbols_; }

  bool fail(std::string reason);

  // Checks, each failing with the input's number, what it is and what it should be. Unknown ranks and dimensions pass.
  bool expect_dtype(int input, std::initializer_list<DType> allowed);
  bool expect_same_dtype(int first, int second);
  bool expect_rank(int input, int lowest, int highest);
  bool expect_dim(int input, int axis, int64_t wanted);

  // Axis in [0, rank) from one in [-rank, rank); fails otherwise.
  bool normalise_axis(int64_t axis, int rank, int* normalised);

  Extent add(Extent a, Extent b);
  Extent sub(Extent a, Extent b);
  Extent mul(Extent a, Extent b);
  Extent div(Extent a, Extent b);  // towards zero, as ONNX Div on integers
  // The dimension of a broadcast; fails when two numbers differ and neither is 1.
  bool broadcast(Extent a, Extent b, Extent* result);
  // The shape of in(0) broadcast with in(1) and so on, written to out(0).dims. An unknown rank leaves it without shape.
  bool broadcast_inputs(int first, int last);

  Extent* new_contents(size_t count) { return pool_.take(count); }
  // The integers of `attribute` or, when it is absent, of input `input` (-1: no such input).
  Integers integers(const char* attribute, int input) const;

 private:
  Extent combine(Extent a, Extent b, char sign);
  TensorFact* facts_;
  SymbolTable* symbols_;
  ContentsPool& pool_;
  const Node* node_ = nullptr;
  TensorFact scratch_;
  std::string reason_;
};

}  // namespace ompipe::model
