// Attention problems of either element type, their runs on every ISA, and a naive attention in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ompipe/kernels/attention.h"

namespace ops_test {

using namespace ompipe::kernels;

// The numbers that elements of `type` hold after rounding to nearest even.
std::vector<float> rounded(ElementType type, std::vector<float> values);

// Elements of a type with a guard behind them, at an address that is a multiple of one element only.
class Elements {
 public:
  Elements() = default;
  Elements(ElementType type, const std::vector<float>& values);
  void* data();
  std::vector<float> floats() const;  // without the guard
  bool guard_intact() const;

 private:
  ElementType type_ = ElementType::f32;
  std::vector<std::byte> bytes_;
};

// Of rows and of caches.
struct AttentionTypes {
  ElementType rows = ElementType::f32, cache = ElementType::f32;
};
inline constexpr AttentionTypes kAttentionTypes[] = {{ElementType::f32, ElementType::f32},
                                                     {ElementType::f32, ElementType::f16},
                                                     {ElementType::f16, ElementType::f16},
                                                     {ElementType::f16, ElementType::f32}};

struct AttentionCase {
  int64_t batch = 1, sequence = 1, heads = 4, kv_heads = 2, head_size = 16, capacity = 0;
  std::vector<int32_t> seqlens = {};  // as the operator takes them
  int64_t window = -1, pairs = 0;
  float softcap = 0;
  bool interleaved = false, packed = false, position_major_cache = false;
  AttentionTypes types = {};  // the rotary table has that of rows
};

// Everything one call needs, with seeded contents that their types hold; the caches hold garbage behind the past.
struct AttentionProblem {
  AttentionCase shape;
  std::vector<float> query, key, value, keys, values, cos, sin;  // packed: all three rows in query
  AttentionArguments a;

  explicit AttentionProblem(const AttentionCase& shape);
  // Row (b, s) from head `head` on.
  const float* query_row(int64_t b, int64_t s, int64_t head) const;
  const float* key_row(int64_t b, int64_t s, int64_t head) const;
  const float* value_row(int64_t b, int64_t s, int64_t head) const;
};

// What a run leaves.
struct AttentionResult {
  std::vector<float> outputs, keys, values;
};

// Runs the call on copies of the vectors on every available ISA, in both orders of tiles, and checks that all bits are
// those of the scalar one.
AttentionResult run_attention(AttentionProblem& problem);

// Runs the case in each pair of types and checks outputs and caches against double.
void check_attention(const AttentionCase& shape);

}  // namespace ops_test
