#include "request_table.h"

#include <bit>
#include <utility>

namespace ompipe::io {

RequestTable::RequestTable(uint32_t capacity)
    : slots_(std::make_unique<RequestSlot[]>(capacity)), buckets_(std::bit_ceil(size_t{2} * capacity), kEmpty) {
  for (Queue& queue : queues_) queue.reserve(capacity);
  free_.reserve(capacity);
  for (uint32_t index = capacity; index > 0; --index) free_.push_back(index - 1);
}

// Fibonacci hashing (Knuth, TAOCP 3, 6.4): ids are often consecutive or share their low bits.
uint32_t RequestTable::home_of(RequestId id) const {
  return static_cast<uint32_t>((id * 0x9e3779b97f4a7c15) >> (64 - std::countr_zero(buckets_.size())));
}

// Where `id` stands, or the empty bucket where it would.
uint32_t RequestTable::bucket_of(RequestId id) const {
  const uint32_t mask = static_cast<uint32_t>(buckets_.size()) - 1;
  uint32_t bucket = home_of(id);
  while (buckets_[bucket] != kEmpty && slots_[buckets_[bucket]].request.id != id) bucket = (bucket + 1) & mask;
  return bucket;
}

RequestSlot* RequestTable::insert(ReadRequest request) {
  if (free_.empty()) return nullptr;
  const uint32_t bucket = bucket_of(request.id);
  OMPIPE_CHECK(buckets_[bucket] == kEmpty, "a request id was used twice");
  const uint32_t index = free_.back();
  free_.pop_back();
  buckets_[bucket] = index;
  RequestSlot& slot = slots_[index];
  slot.request = std::move(request);
  slot.cancelled.store(false, std::memory_order_relaxed);
  slot.in_flight = false;
  slot.sequence = next_sequence_++;
  queue(slot);
  return &slot;
}

RequestSlot* RequestTable::find(RequestId id) {
  const uint32_t index = buckets_[bucket_of(id)];
  return index == kEmpty ? nullptr : &slots_[index];
}

RequestSlot* RequestTable::first(Priority priority) {
  const Queue& queue = queues_[static_cast<size_t>(priority)];
  return queue.empty() ? nullptr : &slots_[queue.front()];
}

bool RequestTable::precedes(uint32_t a, uint32_t b) const {
  const RequestSlot &x = slots_[a], &y = slots_[b];
  return std::pair(x.request.plan_position, x.sequence) < std::pair(y.request.plan_position, y.sequence);
}

void RequestTable::place(Queue& queue, size_t position, uint32_t index) {
  queue[position] = index;
  slots_[index].queue_place = static_cast<uint32_t>(position);
}

// Moves the entry at `position` up or down to where the heap order wants it.
void RequestTable::sift(Queue& queue, size_t position) {
  const uint32_t index = queue[position];
  while (position > 0 && precedes(index, queue[(position - 1) / 2])) {
    place(queue, position, queue[(position - 1) / 2]);
    position = (position - 1) / 2;
  }
  for (;;) {
    size_t child = 2 * position + 1;
    if (child >= queue.size()) break;
    if (child + 1 < queue.size() && precedes(queue[child + 1], queue[child])) ++child;
    if (!precedes(queue[child], index)) break;
    place(queue, position, queue[child]);
    position = child;
  }
  place(queue, position, index);
}

void RequestTable::queue(RequestSlot& slot) {
  Queue& queue = queue_of(slot);
  queue.push_back(index_of(slot));
  sift(queue, queue.size() - 1);
}

void RequestTable::unqueue(RequestSlot& slot) {
  Queue& queue = queue_of(slot);
  const size_t position = slot.queue_place;
  OMPIPE_CHECK(position < queue.size() && queue[position] == index_of(slot), "the request is not queued");
  const uint32_t last = queue.back();
  queue.pop_back();
  if (position == queue.size()) return;
  queue[position] = last;
  sift(queue, position);
}

ReadRequest RequestTable::erase(RequestSlot& slot) {
  const uint32_t mask = static_cast<uint32_t>(buckets_.size()) - 1;
  uint32_t hole = bucket_of(slot.request.id);
  OMPIPE_CHECK(buckets_[hole] == index_of(slot), "the request is not in the table");
  // Backward-shift deletion (Knuth, TAOCP 3, 6.4, algorithm R): no tombstones, so lookups stay short for ever.
  for (uint32_t next = (hole + 1) & mask; buckets_[next] != kEmpty; next = (next + 1) & mask) {
    const uint32_t home = home_of(slots_[buckets_[next]].request.id);
    if (((next - home) & mask) < ((next - hole) & mask)) continue;
    buckets_[hole] = buckets_[next];
    hole = next;
  }
  buckets_[hole] = kEmpty;
  free_.push_back(index_of(slot));
  return std::exchange(slot.request, ReadRequest{});
}

}  // namespace ompipe::io
