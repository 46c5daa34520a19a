#include "ompipe/exec/tile_runner.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace ompipe::exec {

// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t SerialTileRunner::next() {
  uint64_t x = state_ += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

void SerialTileRunner::run(int tiles, TileFn fn, void* arg, double) {
  if (!shuffled_) {
    for (int tile = 0; tile < tiles; ++tile) fn(arg, tile, 0);
    return;
  }
  order_.resize(std::size_t(tiles));
  std::iota(order_.begin(), order_.end(), 0);
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[next() % i]);
  for (const int tile : order_) fn(arg, tile, int(next() % uint64_t(workers_)));
}

}  // namespace ompipe::exec
