#include "ceilings.h"

#include <immintrin.h>

namespace ompipe::bench {
namespace {

constexpr int64_t kCeilingTiles = 16;

// The empty asm makes each sum opaque, so that the chains stay as they are written and none is dropped.
__attribute__((target("avx2,fma"))) void float_fma(int64_t flops) {
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  __m256 sums[12];
  for (__m256& sum : sums) sum = a;
  for (int64_t i = 0; i < flops / (12 * 16); ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) {
      sums[j] = _mm256_fmadd_ps(sums[j], a, b);
      asm volatile("" : "+x"(sums[j]));
    }
  }
}

__attribute__((target("avx2"))) void int8_dot(int64_t ops) {
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1);
  __m256i sums[4] = {};
  for (int64_t i = 0; i < ops / (4 * 64); ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      asm volatile("" : "+x"(a));
      sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
      asm volatile("" : "+x"(sums[j]));
    }
  }
}

__attribute__((target("avx2"))) void four_stream_read(const std::byte* p, int64_t bytes) {
  const int64_t stream = bytes / 4 / 64 * 64;
  __m256i sums[8] = {};
  for (int64_t at = 0; at < stream; at += 64) {
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      const __m256i* line = reinterpret_cast<const __m256i*>(p + s * stream + at);
      sums[2 * s] = _mm256_or_si256(sums[2 * s], _mm256_load_si256(line));
      sums[2 * s + 1] = _mm256_or_si256(sums[2 * s + 1], _mm256_load_si256(line + 1));
    }
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
}

void run_tile(const void* arguments, int, int64_t tile, std::byte*) {
  const Ceiling& ceiling = *static_cast<const Ceiling*>(arguments);
  const int64_t amount = ceiling.amount / kCeilingTiles;
  switch (ceiling.kind) {
    case Ceiling::Kind::float_fma:
      return float_fma(amount);
    case Ceiling::Kind::int8_dot:
      return int8_dot(amount);
    case Ceiling::Kind::four_stream_read:
      return four_stream_read(ceiling.bytes + tile * (amount / 64 * 64), amount / 64 * 64);
  }
}

}  // namespace

kernels::TiledCall ceiling_call(const Ceiling& ceiling) {
  kernels::TiledCall call;
  call.arguments = &ceiling;
  call.run_tile = run_tile;
  call.phase_count = 1;
  call.tile_counts = {kCeilingTiles};
  return call;
}

}  // namespace ompipe::bench
