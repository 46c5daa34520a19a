// Blocks whose lives overlap never share a byte, and what is dead is used again.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "memory_plan.h"

using ompipe::exec::align_block;
using ompipe::exec::Block;
using ompipe::exec::MemoryPlanner;

namespace {

uint64_t placed(const Block& block) { return align_block(std::max<uint64_t>(block.bytes, 1)); }

bool overlap(const Block& a, const Block& b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  const bool in_space = a.offset < b.offset + placed(b) && b.offset < a.offset + placed(a);
  return in_time && in_space;
}

// The most bytes that are live at one step: no placement is below it.
uint64_t live_peak(const std::vector<Block>& blocks) {
  uint64_t peak = 0;
  for (const Block& at : blocks) {
    uint64_t live = 0;
    for (const Block& block : blocks) live += block.first <= at.first && at.first <= block.last ? placed(block) : 0;
    peak = std::max(peak, live);
  }
  return peak;
}

std::vector<Block> random_blocks() {
  std::vector<Block> blocks(*rc::gen::inRange<size_t>(1, 60));
  for (Block& block : blocks) {
    block.first = *rc::gen::inRange(0, 40);
    block.last = block.first + *rc::gen::inRange(0, 12);
    block.bytes = *rc::gen::inRange<uint64_t>(0, 5000);
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.first < b.first; });
  return blocks;
}

}  // namespace

TEST_SUITE_BEGIN("memory_plan");

TEST_CASE("a chain of values needs two blocks") {
  std::vector<Block> blocks;
  for (int32_t i = 0; i < 10; ++i) blocks.push_back({i, i + 1, 1000, 0});
  MemoryPlanner planner;
  CHECK(planner.place(blocks) == 2 * 1024);
  CHECK(blocks[2].offset == blocks[0].offset);
}

TEST_CASE("a dead gap at the end grows instead of being left behind") {
  std::vector<Block> blocks{{0, 5, 64, 0}, {0, 0, 64, 0}, {1, 1, 640, 0}};
  MemoryPlanner planner;
  CHECK(planner.place(blocks) == 64 + 640);
}

TEST_CASE("the smallest gap that fits is taken") {
  // After step 0 there are gaps of 256 and 128 bytes between blocks that stay.
  std::vector<Block> blocks{{0, 0, 256, 0}, {0, 9, 64, 0}, {0, 0, 128, 0}, {0, 9, 64, 0}, {1, 1, 100, 0}};
  MemoryPlanner planner;
  planner.place(blocks);
  CHECK(blocks[4].offset == blocks[2].offset);
}

TEST_CASE("random lives never overlap, stay inside the whole and are aligned") {
  CHECK(rc::check([] {
    std::vector<Block> blocks = random_blocks();
    MemoryPlanner planner;
    const uint64_t whole = planner.place(blocks);
    RC_ASSERT(whole >= live_peak(blocks));
    for (size_t i = 0; i < blocks.size(); ++i) {
      RC_ASSERT(blocks[i].offset % 64 == 0);
      RC_ASSERT(blocks[i].offset + placed(blocks[i]) <= whole);
      for (size_t j = 0; j < i; ++j) RC_ASSERT(!overlap(blocks[i], blocks[j]));
    }
    std::vector<Block> again = blocks;
    RC_ASSERT(planner.place(again) == whole);
  }));
}

TEST_SUITE_END();
