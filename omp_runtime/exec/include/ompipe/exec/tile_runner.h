// How a frame gets the tiles of a kernel run: an interface that schedulers implement, and the serial implementation.
#pragma once

#include <cstdint>
#include <vector>

namespace ompipe::exec {

// Runs one tile. `worker` is in [0, workers()) and no other tile runs with the same one at the same time. Can't fail.
using TileFn = void (*)(void* arg, int tile, int worker);

// Spreads the tiles of one kernel call over threads. One run is in progress at a time on each runner; the caller is its
// leader.
class TileRunner {
 public:
  virtual ~TileRunner() = default;
  // The worker that the calling thread is.
  virtual int worker() const = 0;
  // At most this many run tiles at once; constant while a frame is attached.
  virtual int workers() const = 0;
  // Calls fn(arg, tile, worker) once for every tile in [0, tiles), in any order. Returns when all have returned, and
  // their writes are visible to the caller. `predicted_ns` is the time of all tiles on one thread: whether helpers are
  // worth a wake.
  virtual void run(int tiles, TileFn fn, void* arg, double predicted_ns) = 0;
};

// Every tile on the calling thread: in order, or with a seed in an order of its own for each run. Allocates only with a
// seed.
class SerialTileRunner : public TileRunner {
 public:
  SerialTileRunner() = default;
  // Shuffles the order and spreads tiles over `workers` scratch slots, as a team would.
  SerialTileRunner(uint64_t seed, int workers) : state_(seed), shuffled_(true), workers_(workers) {}
  int worker() const override { return 0; }
  int workers() const override { return workers_; }
  void run(int tiles, TileFn fn, void* arg, double predicted_ns) override;

 private:
  uint64_t next();
  uint64_t state_ = 0;
  bool shuffled_ = false;
  int workers_ = 1;
  std::vector<int> order_;
};

}  // namespace ompipe::exec
