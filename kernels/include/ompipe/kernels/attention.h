// com.microsoft::GroupQueryAttention of float32 or float16 over a KV-cache of the caller's, which it appends in place.
#pragma once

#include <cstdint>

#include "ompipe/kernels/element_type.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/rotary.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// One half of a KV-cache: element i of the head h at position t of batch row b is
// base[b * batch_stride + h * head_stride + t * row_stride + i]. [B, KV, capacity, d], with a capacity at or above the
// length in use, is the usual form; any strides do. They count elements, of the call's cache_type.
struct CacheView {
  void* base = nullptr;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
};

// Query head h uses key/value head h / (heads / kv_heads). Row s of batch row b stands at position past(b) + s and sees
// the keys up to itself, of those the newest `window`; score = q k scale, then softcap tanh(score / softcap).
//
// query, key and value are rows of a [B, S, ...] tensor: row (b, s) begins at (b S + s) * its stride. Packed [q, k, v]
// is one tensor with key = query + heads d, value = key + kv_heads d and equal strides.
//
// `type` is that of query, key, value and output, `cache_type` that of both caches; each is f32 or f16, whatever the
// other. All is computed in float32. What goes into a float16 cache is rounded once, to nearest even: a new key after
// its rotation. New rows see one another as the cache holds them. A float16 output is rounded once.
struct AttentionArguments {
  ElementType type = ElementType::f32, cache_type = ElementType::f32;
  const void* query = nullptr;                                 // row: heads * head_size
  const void* key = nullptr;                                   // row: kv_heads * head_size
  const void* value = nullptr;                                 // as key
  int64_t query_stride = 0, key_stride = 0, value_stride = 0;  // in elements
  void* output = nullptr;                                      // [B, S, heads * head_size], contiguous
  CacheView keys, values;                                      // hold past(b) positions on entry, past(b) + S on return
  int64_t capacity = 0;                                        // positions that each cache has room for
  const int32_t* seqlens_k = nullptr;                          // [B]: the length with the new rows, less one
  int64_t total_sequence_length = 0;  // the greatest such length; equal to S: a first prompt, whatever seqlens_k says
  RotaryTable rotary;                 // pairs = 0: no rotation, of queries and new keys else
  int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_size = 0;
  float scale = 0;      // the operator's default is 1 / sqrt(head_size)
  float softcap = 0;    // 0: none
  int64_t window = -1;  // local_window_size; 0 and less: none
};

// Positions of batch row b before this call: 0 in a first prompt (whose rows may be padded on the right to S), else
// seqlens_k[b] + 1 - S.
int64_t past_length(const AttentionArguments& arguments, int64_t b);

// Null if the arguments fit together, else a static text that says what does not: types, head counts, lengths outside
// the cache or the rotary table. The call demands that.
const char* attention_error(const AttentionArguments& arguments);

// Two phases: new keys (rotated) and values are appended to the cache; then attention, a tile for some query rows that
// share one key/value head. The arguments must outlive the call. Exponentials are summed online (Milakov and Gimelshein
// 2018) over blocks of 64 positions that are aligned to position 0. Order of sums: a score is 8 lanes over d, then
// Vector8's tree; a block's exponentials are 8 lanes, then the tree; outputs are one chain of fmas in rising position,
// rescaled at each block. The same bits for every ISA and order of tiles. Any thread.
TiledCall attention_call(const AttentionArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
