// How attention is cut into tiles, and the scratch of one; shared by its dispatch and its kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/kernels/attention.h"

namespace ompipe::kernels {
namespace {

inline constexpr int64_t kKeysPerBlock = 64;       // of the online softmax
inline constexpr int64_t kQueryRowsPerTile = 16;   // share each block of keys and values while it is in the cache
inline constexpr int64_t kAppendRowsPerTile = 16;  // new positions, all key/value heads

// The query rows of one key/value head in one batch row: (s, head in group), s outermost, so neighbours see nearly the
// same keys.
[[maybe_unused]] int64_t grouped_rows(const AttentionArguments& a) { return a.sequence * (a.heads / a.kv_heads); }

[[maybe_unused]] int64_t attention_tiles_per_head(const AttentionArguments& a) {
  return (grouped_rows(a) + kQueryRowsPerTile - 1) / kQueryRowsPerTile;
}

[[maybe_unused]] int64_t append_tiles_per_row(const AttentionArguments& a) {
  return (a.sequence + kAppendRowsPerTile - 1) / kAppendRowsPerTile;
}

// What a tile keeps for its rows. Lives in the tile's scratch.
struct AttentionScratch {
  float* queries;  // [kQueryRowsPerTile, head_size], rotated
  float* scores;   // [kQueryRowsPerTile, kKeysPerBlock]
  float* outputs;  // [kQueryRowsPerTile, head_size], if the output itself can't hold the running sums
};

[[maybe_unused]] size_t attention_scratch_bytes(const AttentionArguments& a) {
  const int64_t heads = a.type == ElementType::f32 ? 1 : 2;
  return size_t(kQueryRowsPerTile) * size_t(heads * a.head_size + kKeysPerBlock) * sizeof(float);
}

[[maybe_unused]] AttentionScratch attention_scratch(const AttentionArguments& a, std::byte* memory) {
  float* const scores = reinterpret_cast<float*>(memory);
  float* const queries = scores + kQueryRowsPerTile * kKeysPerBlock;
  return {queries, scores, queries + kQueryRowsPerTile * a.head_size};
}

}  // namespace
}  // namespace ompipe::kernels
