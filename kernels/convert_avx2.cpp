#include <immintrin.h>

#include "convert_tiles.h"
#include "half.h"

namespace ompipe::kernels {

void half_to_float_tile_avx2(const void* arguments, int, int64_t tile, std::byte*) {
  const ConvertRange range = range_of_tile(*static_cast<const ConvertArguments*>(arguments), tile);
  const auto* from = reinterpret_cast<const uint16_t*>(range.from);
  auto* to = reinterpret_cast<float*>(range.to);
  int64_t i = 0;
  for (; i + 8 <= range.count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < range.count; ++i) to[i] = half_to_float(from[i]);
}

void float_to_half_tile_avx2(const void* arguments, int, int64_t tile, std::byte*) {
  const ConvertRange range = range_of_tile(*static_cast<const ConvertArguments*>(arguments), tile);
  const auto* from = reinterpret_cast<const float*>(range.from);
  auto* to = reinterpret_cast<uint16_t*>(range.to);
  int64_t i = 0;
  for (; i + 8 <= range.count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < range.count; ++i) to[i] = float_to_half(from[i]);
}

}  // namespace ompipe::kernels
