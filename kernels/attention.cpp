#include "ompipe/kernels/attention.h"

#include "attention_tiles.h"
#include "simd_kernels.h"

namespace ompipe::kernels {
namespace {
bool is_supported(ElementType type) { return type == ElementType::f32 || type == ElementType::f16; }
}  // namespace

int64_t past_length(const AttentionArguments& a, int64_t b) {
  return a.sequence == a.total_sequence_length ? 0 : int64_t(a.seqlens_k[b]) + 1 - a.sequence;
}

const char* attention_error(const AttentionArguments& a) {
  if (!is_supported(a.type) || !is_supported(a.cache_type) || !is_supported(a.rotary.type)) {
    return "an element type is neither float32 nor float16";
  }
  if (a.heads <= 0 || a.kv_heads <= 0 || a.heads % a.kv_heads != 0) {
    return "the number of query heads is no multiple of the number of key/value heads";
  }
  if (2 * a.rotary.pairs > a.head_size) return "the rotary table is wider than a head";
  for (int64_t b = 0; b < a.batch; ++b) {
    const int64_t past = past_length(a, b);
    if (a.seqlens_k[b] < 0 || a.seqlens_k[b] >= a.total_sequence_length) {
      return "seqlens_k is outside [0, total_sequence_length)";
    }
    if (past < 0) return "seqlens_k + 1 is below the number of new positions";
    if (past + a.sequence > a.capacity) return "past and new positions exceed the capacity of the KV-cache";
    if (a.rotary.pairs > 0 && past + a.sequence > a.rotary.positions) {
      return "past and new positions exceed the rotary table";
    }
  }
  return nullptr;
}

TiledCall attention_call(const AttentionArguments& a, Isa isa) {
  constexpr double kNsPerAppended = 0.25;
  // One new position finds the KV-cache in memory.
  const double kNsPerMultiplyAdd = a.sequence == 1 ? 0.1 : 0.06;
  TiledCall call;
  call.arguments = &a;
  call.run_tile = simd_kernels(isa).attention;
  call.phase_count = 2;
  call.tile_counts[0] = a.batch * append_tiles_per_row(a);
  call.tile_counts[1] = a.batch * a.kv_heads * attention_tiles_per_head(a);
  call.tile_scratch_bytes = attention_scratch_bytes(a);
  const double rows = double(a.batch) * double(a.heads) * double(a.sequence);
  const double keys = double(a.total_sequence_length) - double(a.sequence) / 2;
  const double appended = 2 * double(a.batch) * double(a.kv_heads) * double(a.sequence) * double(a.head_size);
  call.phase_ns = {kNsPerAppended * appended, kNsPerMultiplyAdd * 2 * rows * keys * double(a.head_size)};
  return call;
}

}  // namespace ompipe::kernels
