// Plain threads that run the tiles of one kernel call together, so that kernels are measured without a scheduler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "bench_memory.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::bench {

// `threads` members, the caller of run() being the first. The others spin between calls: waking them is not what is
// measured.
class TileTeam {
 public:
  TileTeam(int threads, size_t tile_scratch_bytes) {
    for (int i = 0; i < threads; ++i) scratch_.push_back(std::make_unique<BenchMemory>(tile_scratch_bytes + 1));
    for (int i = 1; i < threads; ++i) members_.emplace_back([this, i] { serve(i); });
  }
  ~TileTeam() {
    stop_.store(true);
    for (std::thread& member : members_) member.join();
  }

  // Runs all tiles of all phases. Called by one thread.
  void run(const kernels::TiledCall& call) {
    for (int phase = 0; phase < call.phase_count; ++phase) {
      call_ = &call;
      phase_ = phase;
      next_tile_.store(0, std::memory_order_relaxed);
      finished_.store(0, std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
      take_tiles(0);
      for (int spins = 0; finished_.load(std::memory_order_acquire) != members_.size();) relax(spins);
    }
  }

 private:
  // Spins, and gives the core away when it takes long: the machine may have fewer cores than the team.
  static void relax(int& spins) {
    if (++spins < 20000) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }

  void take_tiles(int member) {
    for (;;) {
      const int64_t tile = next_tile_.fetch_add(1, std::memory_order_relaxed);
      if (tile >= call_->tile_counts[phase_]) return;
      call_->run(phase_, tile, scratch_[member]->data());
    }
  }

  void serve(int member) {
    for (uint64_t seen = 0;;) {
      for (int spins = 0; generation_.load(std::memory_order_acquire) == seen;) {
        if (stop_.load(std::memory_order_relaxed)) return;
        relax(spins);
      }
      ++seen;
      take_tiles(member);
      finished_.fetch_add(1, std::memory_order_release);
    }
  }

  std::vector<std::unique_ptr<BenchMemory>> scratch_;
  const kernels::TiledCall* call_ = nullptr;  // written by run() before generation_ rises
  int phase_ = 0;
  alignas(64) std::atomic<int64_t> next_tile_{0};
  alignas(64) std::atomic<uint64_t> generation_{0};
  alignas(64) std::atomic<size_t> finished_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> members_;
};

}  // namespace ompipe::bench
