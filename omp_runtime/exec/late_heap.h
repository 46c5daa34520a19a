// Memory for what only a run can size: pieces of blocks that are handed in when they are asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "ompipe/exec/tensor.h"

namespace ompipe::exec {

// Hands out the smallest gap that holds a piece, so which piece lies where depends on the order of calls alone. Not
// thread-safe.
class LateHeap {
 public:
  void add(HeldBytes block);
  // `bytes` at a multiple of 64; null: no gap is so large.
  std::byte* take(uint64_t bytes);
  void give_back(std::byte* piece, uint64_t bytes);
  // Lets go of the blocks; no piece is used any more.
  void clear();
  uint64_t bytes() const { return bytes_; }  // of all blocks

 private:
  struct Gap {
    std::byte* data;
    uint64_t bytes;
  };
  std::vector<HeldBytes> blocks_;
  std::vector<Gap> gaps_;  // ascending, never adjacent
  uint64_t bytes_ = 0;
};

}  // namespace ompipe::exec
