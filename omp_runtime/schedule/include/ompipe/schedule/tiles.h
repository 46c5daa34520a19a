// Sharing one kernel's tiles between the thread that leads it and idle threads that join.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ompipe/schedule/ledger.h"

namespace ompipe::schedule {

// One kernel in flight a thread. A helper joins by one CAS and only while tiles are left; the leader waits only for
// threads that have joined, each in its last tile. No task a tile, no nested region, no deadlock when oversubscribed.
class TileSharing {
 public:
  explicit TileSharing(Ledger& ledger, int threads) : ledger_(ledger), threads_(threads) {}

  void lead(int worker, int64_t tiles, TileFunction fn, void* arg, double predicted_ns);
  // Joins some kernel with tiles left; false if there was none.
  bool help(int worker);
  uint64_t helped() const { return helped_.load(std::memory_order_relaxed); }

 private:
  // word = generation << 32 | closed << 31 | joiners. Everything else is written while the word is closed and without
  // joiners.
  struct alignas(64) Kernel {
    std::atomic<uint64_t> word{kClosed};
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> tiles{0};
    TileFunction fn = nullptr;
    void* arg = nullptr;
  };
  static constexpr uint64_t kClosed = 1ull << 31, kJoiners = kClosed - 1;

  int64_t take(Kernel& kernel, int worker);

  Ledger& ledger_;
  const int threads_;
  std::array<Kernel, kMaxThreads> kernels_;
  std::atomic<uint64_t> helped_{0};
};

}  // namespace ompipe::schedule
