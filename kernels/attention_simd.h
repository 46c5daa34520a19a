// Grouped-query attention, written once over a Vector8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "attention_tiles.h"
#include "rotary_simd.h"
#include "vector8_elements.h"
#include "vector_math.h"

namespace ompipe::kernels {
namespace {

// The dot products of `rows` queries with 8 / rows keys, lane row * (8 / rows) + key of the result.
template <class V, int rows, class T>
V eight_scores(const float* queries, const T* const* keys, int64_t head_size) {
  constexpr int key_count = 8 / rows;
  V sums[8];
  for (V& sum : sums) sum = V::broadcast(0.0f);
  const auto step = [&](int64_t i, auto load) __attribute__((always_inline)) {
    V key[key_count];
    for (int k = 0; k < key_count; ++k) key[k] = load(keys[k] + i);
    for (int r = 0; r < rows; ++r) {
      const V query = load(queries + r * head_size + i);
      for (int k = 0; k < key_count; ++k) sums[r * key_count + k] = V::fma(query, key[k], sums[r * key_count + k]);
    }
  };
  int64_t i = 0;
  for (; i + 8 <= head_size; i += 8) step(i, [](const auto* p) { return load_elements<V>(p); });
  const int rest = int(head_size - i);
  if (rest > 0) step(i, [rest](const auto* p) { return load_elements<V>(p, rest); });
  return V::sums(sums);
}

// scores[r][t - block] = q_r . k_t for t in [begin, end), a part of the block of kKeysPerBlock positions at `block`.
template <class V, int rows, class T>
void score_rows(const float* queries, float* scores, const T* keys, int64_t row_stride, int64_t head_size,
                int64_t block, int64_t begin, int64_t end) {
  constexpr int key_count = 8 / rows;
  for (int64_t t = begin; t < end; t += key_count) {
    const T* pointers[key_count];
    for (int k = 0; k < key_count; ++k) pointers[k] = keys + std::min(t + k, end - 1) * row_stride;
    float lanes[8];
    eight_scores<V, rows>(queries, pointers, head_size).store(lanes);
    const int valid = int(std::min<int64_t>(key_count, end - t));
    for (int r = 0; r < rows; ++r) {
      for (int k = 0; k < valid; ++k) scores[r * kKeysPerBlock + t - block + k] = lanes[r * key_count + k];
    }
  }
}

// outputs[r] = outputs[r] * rescale[r] + sum over t in [begin, end) of weights[r][t - block] * values[t], for
// 8 * vectors columns, or the first `lanes` of them in the partial form.
template <class V, int rows, int vectors, bool partial = false, class T>
void accumulate_columns(float* const* outputs, int64_t column, const float* rescale, const float* weights,
                        const T* values, int64_t row_stride, int64_t block, int64_t begin, int64_t end, int lanes = 8) {
  const auto load = [lanes](const auto* from) {
    return partial ? load_elements<V>(from, lanes) : load_elements<V>(from);
  };
  V sums[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = load(outputs[r] + column + 8 * v) * V::broadcast(rescale[r]);
    }
  }
  for (int64_t t = begin; t < end; ++t) {
    V value[vectors];
    for (int v = 0; v < vectors; ++v) value[v] = load(values + t * row_stride + column + 8 * v);
    for (int r = 0; r < rows; ++r) {
      const V weight = V::broadcast(weights[r * kKeysPerBlock + t - block]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = V::fma(weight, value[v], sums[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      float* to = outputs[r] + column + 8 * v;
      partial ? sums[r][v].store_partial(to, lanes) : sums[r][v].store(to);
    }
  }
}

template <class V, int rows, class T>
void accumulate_rows(float* const* outputs, int64_t head_size, const float* rescale, const float* weights,
                     const T* values, int64_t row_stride, int64_t block, int64_t begin, int64_t end) {
  constexpr int vectors = 8 / rows;
  int64_t column = 0;
  for (; column + 8 * vectors <= head_size; column += 8 * vectors) {
    accumulate_columns<V, rows, vectors>(outputs, column, rescale, weights, values, row_stride, block, begin, end);
  }
  for (; column < head_size; column += 8) {
    accumulate_columns<V, rows, 1, true>(outputs, column, rescale, weights, values, row_stride, block, begin, end,
                                         int(std::min<int64_t>(8, head_size - column)));
  }
}

// One query row of a tile: what it sees and its running softmax.
struct QueryRow {
  int64_t first_key, end_key;
  float largest, total;
};

// Position 0 of a head.
template <class T>
T* cache_head(const CacheView& cache, int64_t b, int64_t head) {
  return static_cast<T*>(cache.base) + b * cache.batch_stride + head * cache.head_stride;
}

// Turns one row's scores of a block into exponentials against the new maximum, 0 for what the row does not see, and
// returns the factor for what was summed before.
template <class V>
float absorb_block(const AttentionArguments& a, QueryRow& row, float* scores, int64_t block) {
  const int64_t first = std::max(row.first_key - block, int64_t(0));
  const int64_t end = std::min(row.end_key - block, kKeysPerBlock);
  if (first >= end) {
    std::fill_n(scores, kKeysPerBlock, 0.0f);
    return 1.0f;
  }
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  const V scale = V::broadcast(a.scale);
  V most = V::broadcast(row.largest);
  for (int64_t i = 0; i < kKeysPerBlock; i += 8) {
    V score = V::load(scores + i) * scale;
    if (a.softcap > 0) score = tanh(score / V::broadcast(a.softcap)) * V::broadcast(a.softcap);
    if (i < first || i + 8 > end) {  // not seen, whatever the scratch held
      float kept[8];
      score.store(kept);
      for (int64_t k = 0; k < 8; ++k) kept[k] = i + k < first || i + k >= end ? lowest : kept[k];
      score = V::load(kept);
    }
    score.store(scores + i);
    most = V::maximum(score, most);
  }
  const float largest = most.largest();
  const V shift = V::broadcast(largest);
  V sums = V::broadcast(0.0f);
  for (int64_t i = 0; i < kKeysPerBlock; i += 8) {
    const V weight = exp(V::load(scores + i) - shift);
    weight.store(scores + i);
    sums = sums + weight;
  }
  float rescale[8];
  exp(V::broadcast(row.largest) - shift).store(rescale);
  row.largest = largest;
  row.total = row.total * rescale[0] + sums.sum();
  return rescale[0];
}

// Adds positions [from, to) of a block to the sums of `rows` rows: those that all of them see are read once for all,
// the others row by row. A position that a row does not see is none of its sum: 0 times an infinity there would be NaN.
template <class V, int rows, class T>
void accumulate_group(const QueryRow* states, float* const* outputs, int64_t head_size, float* rescale,
                      const float* weights, const T* values, int64_t row_stride, int64_t block, int64_t from,
                      int64_t to) {
  int64_t begin = from, end = to;
  for (int r = 0; r < rows; ++r) {
    begin = std::max(begin, states[r].first_key);
    end = std::min(end, states[r].end_key);
  }
  if (begin >= end) begin = end = from;
  const auto add_alone = [&](int r, int64_t own_begin, int64_t own_end) {
    if (own_begin >= own_end) return;
    accumulate_rows<V, 1>(outputs + r, head_size, rescale + r, weights + r * kKeysPerBlock, values, row_stride, block,
                          own_begin, own_end);
    rescale[r] = 1.0f;
  };
  for (int r = 0; r < rows; ++r) add_alone(r, std::max(from, states[r].first_key), begin);
  if (begin < end) {
    accumulate_rows<V, rows>(outputs, head_size, rescale, weights, values, row_stride, block, begin, end);
    std::fill_n(rescale, rows, 1.0f);
  }
  for (int r = 0; r < rows; ++r) {
    add_alone(r, std::max(end, states[r].first_key), std::min(to, states[r].end_key));
  }
}

// Applies body<rows>(first row) to groups of 4, 2 and 1 rows.
template <class Body>
void for_row_groups(int64_t rows, Body body) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) body(std::integral_constant<int, 4>(), r);
  if (r + 2 <= rows) {
    body(std::integral_constant<int, 2>(), r);
    r += 2;
  }
  if (r < rows) body(std::integral_constant<int, 1>(), r);
}

// A head as floats at y, rotated if the table has pairs.
template <class V, class T>
void load_head(const RotaryTable& table, int64_t position, const T* x, float* y, int64_t head_size) {
  if constexpr (std::is_same_v<T, float>) {
    if (table.pairs > 0) return rotate_head<V>(table, position, x, y, head_size);
  }
  copy_elements<V>(x, y, head_size);
  if (table.pairs > 0) rotate_head<V>(table, position, y, y, head_size);
}

// The query rows of a tile: number r is row s of batch row b, head `head`.
struct TileRows {
  int64_t b, kv_head, begin, count, group, sequence;

  TileRows(const AttentionArguments& a, int64_t tile) : group(a.heads / a.kv_heads), sequence(a.sequence) {
    const int64_t per_head = attention_tiles_per_head(a);
    kv_head = tile / per_head % a.kv_heads;
    b = tile / per_head / a.kv_heads;
    begin = tile % per_head * kQueryRowsPerTile;
    count = std::min(kQueryRowsPerTile, grouped_rows(a) - begin);
  }
  int64_t s(int64_t r) const { return (begin + r) / group; }
  int64_t head(int64_t r) const { return kv_head * group + (begin + r) % group; }
  int64_t row(int64_t r) const { return b * sequence + s(r); }  // of [B, S, ...]
};

// Loads and rotates the queries, and chooses where outputs are summed.
template <class V>
void load_queries(const AttentionArguments& a, const TileRows& rows, const AttentionScratch& scratch, float** outputs) {
  const int64_t past = past_length(a, rows.b);
  for (int64_t r = 0; r < rows.count; ++r) {
    float* const query = scratch.queries + r * a.head_size;
    with_element(a.type, [&](auto element) {
      const auto* from = static_cast<const decltype(element)*>(a.query) + rows.row(r) * a.query_stride;
      load_head<V>(a.rotary, past + rows.s(r), from + rows.head(r) * a.head_size, query, a.head_size);
    });
    outputs[r] = a.type == ElementType::f32
                     ? static_cast<float*>(a.output) + (rows.row(r) * a.heads + rows.head(r)) * a.head_size
                     : scratch.outputs + r * a.head_size;
    std::fill_n(outputs[r], a.head_size, 0.0f);
  }
}

// Divides by the sums of exponentials.
template <class V>
void store_outputs(const AttentionArguments& a, const TileRows& rows, const QueryRow* states, float* const* outputs) {
  with_element(a.type, [&](auto element) {
    for (int64_t r = 0; r < rows.count; ++r) {
      auto* to = static_cast<decltype(element)*>(a.output) + (rows.row(r) * a.heads + rows.head(r)) * a.head_size;
      const V total = V::broadcast(states[r].total);
      for (int64_t i = 0; i < a.head_size; i += 8) {
        const int lanes = int(std::min<int64_t>(8, a.head_size - i));
        store_elements(V::load_partial(outputs[r] + i, lanes) / total, to + i, lanes);
      }
    }
  });
}

template <class V, class T>
void attend_tile(const AttentionArguments& a, int64_t tile, std::byte* memory) {
  const TileRows rows(a, tile);
  const AttentionScratch scratch = attention_scratch(a, memory);
  const int64_t past = past_length(a, rows.b), length = int64_t(a.seqlens_k[rows.b]) + 1;
  QueryRow states[kQueryRowsPerTile];
  float* outputs[kQueryRowsPerTile];
  load_queries<V>(a, rows, scratch, outputs);
  int64_t first_key = length, end_key = 0;
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t end = std::min(past + rows.s(r) + 1, length);  // rows that pad a prompt see what the last one sees
    states[r] = {a.window > 0 ? std::max(end - a.window, int64_t(0)) : 0, end, -std::numeric_limits<float>::infinity(),
                 0.0f};
    first_key = std::min(first_key, states[r].first_key);
    end_key = std::max(end_key, end);
  }
  const T* keys = cache_head<T>(a.keys, rows.b, rows.kv_head);
  const T* values = cache_head<T>(a.values, rows.b, rows.kv_head);
  for (int64_t block = first_key / kKeysPerBlock * kKeysPerBlock; block < end_key; block += kKeysPerBlock) {
    const int64_t from = std::max(block, first_key), to = std::min(block + kKeysPerBlock, end_key);
    for_row_groups(rows.count, [&](auto count, int64_t r) {
      constexpr int scored = count == 1 ? 1 : 2;
      for (int64_t i = r; i < r + count; i += scored) {
        score_rows<V, scored>(scratch.queries + i * a.head_size, scratch.scores + i * kKeysPerBlock, keys,
                              a.keys.row_stride, a.head_size, block, from, to);
      }
    });
    float rescale[kQueryRowsPerTile];
    for (int64_t r = 0; r < rows.count; ++r) {
      rescale[r] = absorb_block<V>(a, states[r], scratch.scores + r * kKeysPerBlock, block);
    }
    for_row_groups(rows.count, [&](auto count, int64_t r) {
      accumulate_group<V, count>(states + r, outputs + r, a.head_size, rescale + r, scratch.scores + r * kKeysPerBlock,
                                 values, a.values.row_stride, block, from, to);
    });
  }
  store_outputs<V>(a, rows, states, outputs);
}

// Copies the new values and the rotated new keys of some positions behind the past.
template <class V, class Row, class T>
void append_tile(const AttentionArguments& a, int64_t tile, std::byte* memory) {
  const int64_t per_row = append_tiles_per_row(a), b = tile / per_row, past = past_length(a, b);
  const int64_t begin = tile % per_row * kAppendRowsPerTile, end = std::min(begin + kAppendRowsPerTile, a.sequence);
  for (int64_t s = begin; s < end; ++s) {
    for (int64_t h = 0; h < a.kv_heads; ++h) {
      const int64_t t = past + s;
      const Row* key = static_cast<const Row*>(a.key) + (b * a.sequence + s) * a.key_stride + h * a.head_size;
      const Row* value = static_cast<const Row*>(a.value) + (b * a.sequence + s) * a.value_stride + h * a.head_size;
      T* key_to = cache_head<T>(a.keys, b, h) + t * a.keys.row_stride;
      if constexpr (std::is_same_v<T, float>) {
        load_head<V>(a.rotary, t, key, key_to, a.head_size);
      } else {
        float* const rotated = attention_scratch(a, memory).queries;
        load_head<V>(a.rotary, t, key, rotated, a.head_size);
        copy_elements<V>(rotated, key_to, a.head_size);
      }
      copy_elements<V>(value, cache_head<T>(a.values, b, h) + t * a.values.row_stride, a.head_size);
    }
  }
}

template <class V>
void attention_tile(const void* raw, int phase, int64_t tile, std::byte* scratch) {
  const auto& a = *static_cast<const AttentionArguments*>(raw);
  with_element(a.cache_type, [&](auto cached) {
    using T = decltype(cached);
    if (phase == 1) return attend_tile<V, T>(a, tile, scratch);
    with_element(a.type, [&](auto row) { append_tile<V, decltype(row), T>(a, tile, scratch); });
  });
}

}  // namespace
}  // namespace ompipe::kernels
