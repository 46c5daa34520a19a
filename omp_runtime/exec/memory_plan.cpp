#include "memory_plan.h"

#include <algorithm>

#include "ompipe/arenas/error.h"

namespace ompipe::exec {
namespace {

uint64_t placed_bytes(const Block& block) { return align_block(std::max<uint64_t>(block.bytes, 1)); }

}  // namespace

void MemoryPlanner::give_back(uint64_t offset, uint64_t bytes) {
  const auto after = std::find_if(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.offset > offset; });
  const bool joins_before = after != gaps_.begin() && (after - 1)->offset + (after - 1)->bytes == offset;
  const bool joins_after = after != gaps_.end() && offset + bytes == after->offset;
  if (joins_before && joins_after) {
    (after - 1)->bytes += bytes + after->bytes;
    gaps_.erase(after);
  } else if (joins_before) {
    (after - 1)->bytes += bytes;
  } else if (joins_after) {
    *after = {offset, bytes + after->bytes};
  } else {
    gaps_.insert(after, {offset, bytes});
  }
}

uint64_t MemoryPlanner::take(uint64_t bytes) {
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->bytes >= bytes && (best == gaps_.end() || gap->bytes < best->bytes)) best = gap;
  }
  if (best == gaps_.end()) {
    // A gap that touches the end grows with it.
    const bool grows = !gaps_.empty() && gaps_.back().offset + gaps_.back().bytes == end_;
    const uint64_t offset = grows ? gaps_.back().offset : end_;
    if (grows) gaps_.pop_back();
    end_ = offset + bytes;
    return offset;
  }
  const uint64_t offset = best->offset;
  *best = {offset + bytes, best->bytes - bytes};
  if (best->bytes == 0) gaps_.erase(best);
  return offset;
}

uint64_t MemoryPlanner::place(std::span<Block> blocks) {
  gaps_.clear();
  live_.clear();
  end_ = 0;
  int32_t step = INT32_MIN;
  for (Block& block : blocks) {
    OMPIPE_CHECK(block.first >= step && block.last >= block.first);
    if (block.first > step) {
      step = block.first;
      std::erase_if(live_, [&](const Block* past) {
        if (past->last >= step) return false;
        give_back(past->offset, placed_bytes(*past));
        return true;
      });
    }
    block.offset = take(placed_bytes(block));
    live_.push_back(&block);
  }
  return end_;
}

}  // namespace ompipe::exec
