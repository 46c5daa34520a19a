// Sharing a kernel's tiles: each once, helpers only while it is open, their writes visible to the leader.
#include "ompipe/schedule/tiles.h"

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include "gate.h"
#include "thread_clock.h"

namespace ompipe::schedule {
namespace {

// Helpers that look for kernels until they are stopped, as idle compute threads do.
class Helpers {
 public:
  Helpers(TileSharing& tiles, int first, int end) {
    for (int worker = first; worker < end; ++worker) {
      threads_.emplace_back([this, &tiles, worker] {
        while (!stopped_.load()) {
          if (!tiles.help(worker)) std::this_thread::yield();
        }
      });
    }
  }
  ~Helpers() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stopped_{false};
  std::vector<std::thread> threads_;
};

struct Squares {
  std::vector<int64_t> values;  // plain memory: ordered by the sharing alone
  std::vector<int> workers;
};

void square(void* arg, int64_t tile, int worker) {
  auto* const squares = static_cast<Squares*>(arg);
  squares->values[size_t(tile)] += tile * tile + 1;
  squares->workers[size_t(tile)] = worker;
}

// Leads `kernels` kernels of changing size as `worker`; the number of wrong tiles.
int lead_many(TileSharing& tiles, int worker, int threads, int kernels) {
  int wrong = 0;
  for (int k = 0; k < kernels; ++k) {
    const int64_t count = k % 17;
    Squares squares{std::vector<int64_t>(size_t(count)), std::vector<int>(size_t(count), -1)};
    tiles.lead(worker, count, square, &squares, 0);
    for (int64_t t = 0; t < count; ++t) {
      const int by = squares.workers[size_t(t)];
      wrong += squares.values[size_t(t)] != t * t + 1 || by < 0 || by >= threads;
    }
  }
  return wrong;
}

}  // namespace

TEST_SUITE_BEGIN("tiles");

TEST_CASE("every tile runs once and is visible to its leader, with any number of helpers and leaders") {
  for (int threads : {1, 2, 4, 8}) {
    for (int leaders : {1, 2}) {
      if (leaders > threads) continue;
      CAPTURE(threads);
      CAPTURE(leaders);
      Ledger ledger;
      TileSharing tiles(ledger, threads);
      std::atomic<int> wrong{0};
      {
        Helpers helpers(tiles, leaders, threads);
        std::vector<std::thread> others;
        for (int l = 1; l < leaders; ++l) others.emplace_back([&, l] { wrong += lead_many(tiles, l, threads, 1500); });
        wrong += lead_many(tiles, 0, threads, 1500);
        for (std::thread& other : others) other.join();
      }
      CHECK(wrong.load() == 0);
      CHECK_FALSE(ledger.has_tiles());
    }
  }
}

TEST_CASE("a helper joins an open kernel, the leader waits for it, and nobody joins afterwards") {
  struct Kernel {
    Gate joined, finish;
    std::atomic<int> returned{0};
    bool waited = true;
  } kernel;
  Ledger ledger;
  TileSharing tiles(ledger, 2);
  CHECK_FALSE(tiles.help(1));
  std::thread helper([&] {
    while (!ledger.has_tiles()) std::this_thread::yield();
    while (!tiles.help(1)) std::this_thread::yield();
  });
  // Two tiles: one of them waits for the other's thread, so both threads take part; then the helper is held in its own
  // until the leader has nothing left to do but wait.
  tiles.lead(
      0, 2,
      [](void* arg, int64_t, int worker) {
        auto* const k = static_cast<Kernel*>(arg);
        if (worker == 1) {
          k->joined.open();
          k->waited = k->finish.wait() && k->waited;
        } else {
          k->waited = k->joined.wait() && k->waited;
          k->finish.open();
        }
        ++k->returned;
      },
      &kernel, 0);
  CHECK(kernel.returned.load() == 2);
  CHECK(kernel.waited);
  helper.join();
  CHECK(tiles.helped() == 1);
  CHECK_FALSE(ledger.has_tiles());
  CHECK_FALSE(tiles.help(1));
}

TEST_CASE("the leader learns what CPU time its helpers spent in the kernel, and nothing of an earlier one") {
  constexpr uint64_t kBurntNs = 3'000'000;
  struct Kernel {
    Gate joined;
    bool waited = true;
  } kernel;
  Ledger ledger;
  TileSharing tiles(ledger, 2);
  std::thread helper([&] {
    while (!ledger.has_tiles()) std::this_thread::yield();
    while (!tiles.help(1)) std::this_thread::yield();
  });
  // The leader's tile uses next to no CPU time: it sleeps until the helper's has used its share.
  const auto tile = [](void* arg, int64_t, int worker) {
    auto* const k = static_cast<Kernel*>(arg);
    if (worker == 0) {
      k->waited = k->joined.wait();
      return;
    }
    const uint64_t until_ns = thread_cpu_ns() + kBurntNs;
    while (thread_cpu_ns() < until_ns) {
    }
    k->joined.open();
  };
  const uint64_t with_helper = tiles.lead(0, 2, tile, &kernel, 0);
  helper.join();
  CHECK(kernel.waited);
  CHECK(with_helper >= kBurntNs);
  CHECK(tiles.lead(0, 3, [](void*, int64_t, int) {}, nullptr, 0) == 0);  // nobody helps
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
