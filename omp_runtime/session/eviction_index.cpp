#include "eviction_index.h"

namespace ompipe::session {

EvictionIndex::EvictionIndex(size_t objects) : place_(objects, -1) { heap_.reserve(objects); }

void EvictionIndex::put(size_t at, Item item) {
  heap_[at] = item;
  place_[size_t(item.object)] = int32_t(at);
}

void EvictionIndex::rise(size_t at) {
  const Item item = heap_[at];
  while (at > 0 && heap_[(at - 1) / 2].key < item.key) {
    put(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  put(at, item);
}

void EvictionIndex::sink(size_t at) {
  const Item item = heap_[at];
  for (size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size() && heap_[child + 1].key > heap_[child].key) ++child;
    if (heap_[child].key <= item.key) break;
    put(at, heap_[child]);
    at = child;
  }
  put(at, item);
}

void EvictionIndex::set(plan::ObjectId object, uint64_t key) {
  if (!contains(object)) {
    heap_.push_back({key, object});
    place_[size_t(object)] = int32_t(heap_.size() - 1);
  }
  const auto at = size_t(place_[size_t(object)]);
  heap_[at].key = key;
  rise(at);
  sink(size_t(place_[size_t(object)]));
}

void EvictionIndex::remove(plan::ObjectId object) {
  if (!contains(object)) return;
  const auto at = size_t(place_[size_t(object)]);
  place_[size_t(object)] = -1;
  const Item last = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return;
  put(at, last);
  rise(at);
  sink(size_t(place_[size_t(last.object)]));
}

}  // namespace ompipe::session
