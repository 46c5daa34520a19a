#include "late_heap.h"

#include <algorithm>

#include "memory_plan.h"

namespace ompipe::exec {

void LateHeap::add(HeldBytes block) {
  bytes_ += block.bytes;
  give_back(block.data, block.bytes / kBlockAlignment * kBlockAlignment);
  blocks_.push_back(std::move(block));
}

std::byte* LateHeap::take(uint64_t bytes) {
  const uint64_t wanted = align_block(bytes);
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->bytes >= wanted && (best == gaps_.end() || gap->bytes < best->bytes)) best = gap;
  }
  if (best == gaps_.end()) return nullptr;
  std::byte* const piece = best->data;
  *best = {piece + wanted, best->bytes - wanted};
  if (best->bytes == 0) gaps_.erase(best);
  return piece;
}

void LateHeap::give_back(std::byte* piece, uint64_t bytes) {
  const uint64_t size = align_block(bytes);
  if (size == 0) return;
  auto after = std::find_if(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.data > piece; });
  if (after != gaps_.end() && piece + size == after->data) {
    *after = {piece, after->bytes + size};
  } else {
    after = gaps_.insert(after, {piece, size});
  }
  if (after == gaps_.begin() || (after - 1)->data + (after - 1)->bytes != after->data) return;
  (after - 1)->bytes += after->bytes;
  gaps_.erase(after);
}

void LateHeap::clear() {
  blocks_.clear();
  gaps_.clear();
  bytes_ = 0;
}

}  // namespace ompipe::exec
