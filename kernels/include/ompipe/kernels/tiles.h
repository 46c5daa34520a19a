// The common shape of a kernel call that callers spread over threads: phases of independent tiles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace ompipe::kernels {

// At most this many phases in one call.
inline constexpr int kMaxPhases = 4;

// Scratch and packed memory given to kernels starts at multiples of this.
inline constexpr size_t kAlignmentBytes = 64;

// One kernel call, bound to its arguments. Phases run one after the other: every tile of a phase has returned, and its
// writes are visible, before the first tile of the next starts. The tiles of a phase run in any order, on any threads,
// at once, each exactly once, and the result has the same bits whatever the order. How the work is cut is a function of
// shapes, layout, instruction set and tile sizes, never of threads or time.
//
// A plain value that owns nothing: `arguments`, and all memory that they point to, belong to the caller and outlive the
// call.
struct TiledCall {
  // Runs one tile. `tile_scratch`: tile_scratch_bytes bytes at kAlignmentBytes that no other tile running now uses;
  // null if that is 0. Its content means nothing between tiles. Can't fail, allocate, lock or throw.
  using RunTile = void (*)(const void* arguments, int phase, int64_t tile, std::byte* tile_scratch);

  const void* arguments = nullptr;
  RunTile run_tile = nullptr;
  int phase_count = 0;
  std::array<int64_t, kMaxPhases> tile_counts = {};  // of each phase; 0 is possible
  size_t tile_scratch_bytes = 0;
  std::array<double, kMaxPhases> phase_ns = {};  // on one thread; rough, for the decision whether to wake helpers

  void run(int phase, int64_t tile, std::byte* tile_scratch) const { run_tile(arguments, phase, tile, tile_scratch); }

  double predicted_ns() const { return std::accumulate(phase_ns.begin(), phase_ns.end(), 0.0); }
};

// Runs every tile of every phase, in order, on the calling thread.
inline void run_serially(const TiledCall& call, std::byte* tile_scratch) {
  for (int phase = 0; phase < call.phase_count; ++phase) {
    for (int64_t tile = 0; tile < call.tile_counts[phase]; ++tile) call.run(phase, tile, tile_scratch);
  }
}

}  // namespace ompipe::kernels
