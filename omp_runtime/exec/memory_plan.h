// Offsets of temporary blocks in one allocation, so that blocks whose lives overlap never share a byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ompipe::exec {

inline constexpr uint64_t kBlockAlignment = 64;

inline uint64_t align_block(uint64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

// A block that is live from step `first` to step `last`, both included.
struct Block {
  int32_t first = 0, last = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // result; a multiple of kBlockAlignment
};

// Places blocks in one sweep over the steps: each goes to the smallest gap that holds it, else to the end. Keeps its
// tables, so that a second plan of the same size allocates nothing. Not thread-safe.
class MemoryPlanner {
 public:
  // Sets every offset and returns the bytes of the whole. Blocks must be ascending in `first`. A block of 0 bytes
  // gets 64.
  uint64_t place(std::span<Block> blocks);

 private:
  struct Gap {
    uint64_t offset, bytes;
  };
  void give_back(uint64_t offset, uint64_t bytes);
  uint64_t take(uint64_t bytes);

  std::vector<Gap> gaps_;  // ascending, never adjacent
  std::vector<const Block*> live_;
  uint64_t end_ = 0;
};

}  // namespace ompipe::exec
