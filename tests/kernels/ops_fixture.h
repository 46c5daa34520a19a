// What the operator tests share: seeded inputs, running a call's tiles in any order, comparison by bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/strided.h"
#include "ompipe/kernels/tiles.h"

namespace ops_test {

using namespace ompipe::kernels;

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place of 1.0f: the error of one rounding

inline std::vector<float> random_floats(size_t count, uint32_t seed, float from = -2, float to = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(from, to);
  std::vector<float> result(count);
  for (float& value : result) value = values(random);
  return result;
}

enum class Order { forward, backward };

// Runs each tile once with fresh scratch whose bytes are all 1, so that reading it unset shows as NaN.
inline void run_tiles(const TiledCall& call, Order order = Order::forward) {
  const size_t bytes = (call.tile_scratch_bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
  for (int phase = 0; phase < call.phase_count; ++phase) {
    const int64_t tiles = call.tile_counts[phase];
    for (int64_t i = 0; i < tiles; ++i) {
      std::unique_ptr<std::byte, decltype(&std::free)> scratch(
          bytes == 0 ? nullptr : static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, bytes)), std::free);
      for (size_t at = 0; at < bytes; ++at) scratch.get()[at] = std::byte{255};
      call.run(phase, order == Order::forward ? i : tiles - 1 - i, scratch.get());
    }
  }
}

// Index of the first element whose bits differ (any two NaNs are alike); -1 if there is none.
inline int64_t first_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool alike = std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
    if (!alike && !(std::isnan(a[i]) && std::isnan(b[i]))) return int64_t(i);
  }
  return -1;
}

// An output before it is written: what is left as it was, or read, shows as NaN.
inline std::vector<float> poisoned(size_t count) { return std::vector<float>(count, kNaN); }

// Runs make_call(isa, output) for every available ISA and both orders of tiles and checks that outputs have the same
// bits. Returns the output. `initial` is what the output holds before; it begins at an odd float, and one float on each
// side must stay as it was.
template <class MakeCall>
std::vector<float> run_everywhere(std::vector<float> initial, MakeCall make_call) {
  constexpr float guard = 12345.0f;
  initial.insert(initial.begin(), guard);
  initial.push_back(guard);
  std::vector<float> reference = initial;
  run_tiles(make_call(Isa::scalar, reference.data() + 1));
  CHECK(reference.front() == guard);
  CHECK(reference.back() == guard);
  for (const Isa isa : kIsas) {
    if (!isa_available(isa)) continue;
    std::vector<float> output = initial;
    run_tiles(make_call(isa, output.data() + 1), Order::backward);
    CHECK(first_difference(output, reference) == -1);
  }
  return {reference.begin() + 1, reference.end() - 1};
}

inline Layout layout(std::initializer_list<int64_t> dims) { return *contiguous_layout({dims.begin(), dims.size()}); }

}  // namespace ops_test
