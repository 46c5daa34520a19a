// An ordered index of the objects of one session that may be evicted: the one to go first on top.
#pragma once

#include <cstdint>
#include <vector>

#include "ompipe/plan/plan.h"

namespace ompipe::session {

// A binary heap with the place of every object, so that one can be moved or removed in O(log n). All storage is
// allocated when it is made. Serial context only.
class EvictionIndex {
 public:
  explicit EvictionIndex(size_t objects);

  // Adds the object, or changes its key. The largest key goes first.
  void set(plan::ObjectId object, uint64_t key);
  void remove(plan::ObjectId object);
  bool contains(plan::ObjectId object) const { return place_[size_t(object)] >= 0; }
  bool empty() const { return heap_.empty(); }
  plan::ObjectId top() const { return heap_.front().object; }
  uint64_t top_key() const { return heap_.front().key; }

 private:
  struct Item {
    uint64_t key;
    plan::ObjectId object;
  };
  void put(size_t at, Item item);
  void rise(size_t at);
  void sink(size_t at);

  std::vector<Item> heap_;
  std::vector<int32_t> place_;  // by object; -1: not in the heap
};

}  // namespace ompipe::session
