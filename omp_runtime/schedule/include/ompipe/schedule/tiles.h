// Sharing one kernel's tiles between the thread that leads it and idle threads that join.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ompipe/schedule/ledger.h"

namespace ompipe::schedule {

// One kernel in flight a thread, and one a place of a hot run on a caller's thread. A helper joins by one CAS and only
// while tiles are left; the leader waits only for threads that have joined, each in its last tile. No task a tile, no
// nested region, no deadlock when oversubscribed.
class TileSharing {
 public:
  explicit TileSharing(Ledger& ledger, int threads) : ledger_(ledger), threads_(threads) {}

  // Worker::run_tiles for the thread `worker`, which leads no other kernel. Wakes one sleeping thread for each
  // kWakeAboveNs of `predicted_ns`. Returns the CPU time that helpers spent in it.
  uint64_t lead(int worker, int64_t tiles, TileFunction fn, void* arg, double predicted_ns);
  // The same in a hot run, whose helpers look for its kernels by themselves: nothing is counted or measured, nobody
  // woken. `entry` is the thread itself, or threads + its place for a caller, who uses the scratch of the thread
  // `worker` instead of it.
  void lead_hot(int entry, int worker, int64_t tiles, TileFunction fn, void* arg);
  // Joins some kernel with tiles left, as thread `worker`; false if there was none. Leaves it after a tile when
  // critical work waits.
  bool help(int worker);
  // Any thread.
  uint64_t helped() const { return helped_.load(std::memory_order_relaxed); }

 private:
  // word = generation << 32 | closed << 31 | joiners. Everything else is written while the word is closed and without
  // joiners.
  struct alignas(64) Kernel {
    std::atomic<uint64_t> word{kClosed};
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> tiles{0};
    std::atomic<uint64_t> helpers_cpu_ns{0};  // of the open generation; read by its leader once no joiner is left
    std::atomic<int> worker{-1};              // whose scratch the leader uses, and who may not help
    TileFunction fn = nullptr;
    void* arg = nullptr;
    bool counted = false;
  };
  static constexpr uint64_t kClosed = 1ull << 31, kJoiners = kClosed - 1;

  // Turns before a leader gives its core away: about 10 us, longer than a short tile takes to end.
  static constexpr int kSpinTurns = 256;

  void open(Kernel& kernel, int worker, int64_t tiles, TileFunction fn, void* arg, bool counted);
  void close(Kernel& kernel, int worker);
  int64_t take(Kernel& kernel, int worker, bool helps);
  static void wait_for_joiners(const Kernel& kernel);

  Ledger& ledger_;
  const int threads_;
  std::array<Kernel, 2 * kMaxThreads> kernels_;  // by thread, then by place
  std::atomic<uint64_t> helped_{0};
};

}  // namespace ompipe::schedule
