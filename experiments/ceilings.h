// What this machine could do at best, measured in the same run: `impl:limit` of the kernel benchmarks. Needs AVX2 and
// FMA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/kernels/tiles.h"

namespace ompipe::bench {

// How much of what a ceiling does. Outlives the call made from it.
struct Ceiling {
  enum class Kind { float_fma, int8_dot, four_stream_read } kind;
  int64_t amount;                    // flops, integer operations, or bytes
  const std::byte* bytes = nullptr;  // four_stream_read: `amount` bytes at 64
};

// A call in kCeilingTiles equal tiles. float_fma: 12 chains of FMAs in registers. int8_dot: maddubs, madd, add in
// registers, as accumulating in 32 bits needs; kernels that accumulate a block in 16 bits may pass it.
// four_stream_read: plain loads.
kernels::TiledCall ceiling_call(const Ceiling& ceiling);

}  // namespace ompipe::bench
