// The unreported requests of an I/O service: slots, an index by id, and one queue a priority, all reserved at
// construction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ompipe/io/io_service.h"

namespace ompipe::io {

struct RequestSlot {
  ReadRequest request;  // while in flight its priority alone changes, under the service's mutex
  std::atomic<bool> cancelled{false};
  bool in_flight = false;
  uint64_t sequence = 0;     // order of submission
  uint32_t queue_place = 0;  // in its priority's queue, while queued
};

// Not thread-safe: the service guards it. Every operation is O(log n) or, expected, O(1), and allocates nothing.
class RequestTable {
 public:
  explicit RequestTable(uint32_t capacity);

  // A free slot for `request`, queued under its priority; null when all are taken. The id must not be in use.
  RequestSlot* insert(ReadRequest request);
  RequestSlot* find(RequestId id);

  // The first of a queue by (plan position, order of submission), or null.
  RequestSlot* first(Priority priority);
  void unqueue(RequestSlot& slot);
  void queue(RequestSlot& slot);

  // Frees the slot of an unqueued request and gives the request back.
  ReadRequest erase(RequestSlot& slot);

  // Calls `visit(RequestSlot&)` for every request.
  template <class Visit>
  void for_each(Visit visit) {
    for (const uint32_t index : buckets_) {
      if (index != kEmpty) visit(slots_[index]);
    }
  }

 private:
  static constexpr uint32_t kEmpty = ~uint32_t{0};
  using Queue = std::vector<uint32_t>;  // a binary heap of slot indices

  uint32_t index_of(const RequestSlot& slot) const { return static_cast<uint32_t>(&slot - slots_.get()); }
  uint32_t home_of(RequestId id) const;
  uint32_t bucket_of(RequestId id) const;
  Queue& queue_of(const RequestSlot& slot) { return queues_[static_cast<size_t>(slot.request.priority)]; }
  bool precedes(uint32_t a, uint32_t b) const;
  void place(Queue& queue, size_t position, uint32_t index);
  void sift(Queue& queue, size_t position);

  const std::unique_ptr<RequestSlot[]> slots_;
  std::vector<uint32_t> free_;
  std::array<Queue, kPriorities> queues_;
  std::vector<uint32_t> buckets_;  // open addressing with linear probing; a power of two, at most half full
  uint64_t next_sequence_ = 0;
};

}  // namespace ompipe::io
