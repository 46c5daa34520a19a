#include "ompipe/schedule/tiles.h"

#include <sched.h>

#include <algorithm>

#include "thread_clock.h"

namespace ompipe::schedule {

int64_t TileSharing::take(Kernel& kernel, int worker, bool helps) {
  const int64_t tiles = kernel.tiles.load(std::memory_order_relaxed);
  int64_t taken = 0;
  while (kernel.next.load(std::memory_order_relaxed) < tiles) {
    const int64_t tile = kernel.next.fetch_add(1, std::memory_order_relaxed);
    if (tile >= tiles) break;
    if (tile == tiles - 1 && kernel.counted) ledger_.close_tiles();
    kernel.fn(kernel.arg, tile, worker);
    ++taken;
    if (helps && ledger_.critical() > 0) break;
  }
  return taken;
}

// A joiner is in its last tile, and needs a core to finish it: soon, or when the leader lets it have this one.
void TileSharing::wait_for_joiners(const Kernel& kernel) {
  for (int turn = 0; kernel.word.load(std::memory_order_acquire) & kJoiners; ++turn) {
    if (turn < kSpinTurns) {
      __builtin_ia32_pause();
    } else {
      sched_yield();
    }
  }
}

void TileSharing::open(Kernel& kernel, int worker, int64_t tiles, TileFunction fn, void* arg, bool counted) {
  OMPIPE_CHECK(kernel.word.load(std::memory_order_relaxed) & kClosed, "a tile of a shared kernel led another");
  kernel.worker.store(worker, std::memory_order_release);
  kernel.fn = fn;
  kernel.arg = arg;
  kernel.counted = counted;
  kernel.tiles.store(tiles, std::memory_order_relaxed);
  kernel.next.store(0, std::memory_order_relaxed);
  kernel.helpers_cpu_ns.store(0, std::memory_order_relaxed);
  kernel.word.store(((kernel.word.load(std::memory_order_relaxed) >> 32) + 1) << 32, std::memory_order_release);
}

void TileSharing::close(Kernel& kernel, int worker) {
  take(kernel, worker, false);
  kernel.word.fetch_or(kClosed, std::memory_order_acq_rel);
  wait_for_joiners(kernel);
}

uint64_t TileSharing::lead(int worker, int64_t tiles, TileFunction fn, void* arg, double predicted_ns) {
  if (threads_ == 1 || tiles < 2) {
    for (int64_t tile = 0; tile < tiles; ++tile) fn(arg, tile, worker);
    return 0;
  }
  Kernel& kernel = kernels_[size_t(worker)];
  open(kernel, worker, tiles, fn, arg, true);
  const double worth_waking = predicted_ns / kWakeAboveNs;
  ledger_.open_tiles(int(std::min({worth_waking, double(threads_ - 1), double(tiles - 1)})));
  close(kernel, worker);
  return kernel.helpers_cpu_ns.load(std::memory_order_relaxed);
}

void TileSharing::lead_hot(int entry, int worker, int64_t tiles, TileFunction fn, void* arg) {
  if (threads_ == 1 || tiles < 2) {
    for (int64_t tile = 0; tile < tiles; ++tile) fn(arg, tile, worker);
    return;
  }
  Kernel& kernel = kernels_[size_t(entry)];
  open(kernel, worker, tiles, fn, arg, false);
  close(kernel, worker);
}

// The worker that may not help is read between two looks at the word, whose generation says that they belong together.
bool TileSharing::help(int worker) {
  for (int i = 1; i < 2 * threads_; ++i) {
    Kernel& kernel = kernels_[size_t((worker + i) % (2 * threads_))];
    uint64_t word = kernel.word.load(std::memory_order_acquire);
    if ((word & kClosed) || kernel.worker.load(std::memory_order_acquire) == worker ||
        kernel.next.load(std::memory_order_relaxed) >= kernel.tiles.load(std::memory_order_relaxed))
      continue;
    if (!kernel.word.compare_exchange_strong(word, word + 1, std::memory_order_acq_rel)) continue;
    const bool measured = kernel.counted;
    const uint64_t start_ns = measured ? thread_cpu_ns() : 0;
    helped_.fetch_add(uint64_t(take(kernel, worker, true)), std::memory_order_relaxed);
    if (measured) kernel.helpers_cpu_ns.fetch_add(thread_cpu_ns() - start_ns, std::memory_order_relaxed);
    kernel.word.fetch_sub(1, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace ompipe::schedule
