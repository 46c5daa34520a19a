#include "ompipe/io/io_service.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ompipe/arenas/start_thread.h"
#include "ompipe/io/meter.h"
#include "read_whole.h"
#include "request_table.h"

namespace ompipe::io {

IoService::IoService(Device& device, CompletionSink& sink, IoOptions options)
    : device_(device),
      sink_(sink),
      options_(std::move(options)),
      slots_(std::max(1u, options_.threads)),
      table_(std::make_unique<RequestTable>(options_.max_requests)),
      cpu_ns_(std::make_unique<std::atomic<uint64_t>[]>(slots_)) {
  OMPIPE_CHECK(options_.threads <= kMaxThreads && options_.max_requests > 0);
  threads_.reserve(options_.threads);
  for (uint32_t thread = 0; thread < options_.threads && started_.ok(); ++thread) {
    Result<std::thread> started = start_thread("I/O threads", [this, thread] { serve(thread); });
    if (started.ok()) {
      threads_.push_back(*std::move(started));
      continue;
    }
    Error error = started.error();
    error.reason = "started " + std::to_string(threads_.size()) + " of " + std::to_string(options_.threads);
    started_ = std::move(error);
    close();
  }
}

IoService::~IoService() { close(); }

SubmitResult IoService::submit(ReadRequest request) {
  OMPIPE_CHECK(request.file != nullptr);
  OMPIPE_CHECK(request.mode == ReadMode::mapped ? request.destination.empty()
                                                : request.destination.size() >= request.length);
  const bool critical = request.priority == Priority::critical;
  MutexLock lock(mutex_);
  if (closed_) return SubmitResult::closed;
  if (table_->insert(std::move(request)) == nullptr) return SubmitResult::full;
  ++usage_.queued;
  usage_.critical_unfinished += critical;
  wake_one_for_work();
  return SubmitResult::accepted;
}

bool IoService::promote(RequestId id, Priority priority) {
  MutexLock lock(mutex_);
  RequestSlot* const slot = table_->find(id);
  if (slot == nullptr) return false;
  const Priority old = slot->request.priority;
  if (old == priority) return true;
  usage_.promotions += priority < old;
  usage_.critical_unfinished -= old == Priority::critical;
  usage_.critical_unfinished += priority == Priority::critical;
  if (slot->in_flight) {
    count_in_flight(slot->request, false);
    slot->request.priority = priority;
    count_in_flight(slot->request, true);
  } else {
    table_->unqueue(*slot);
    slot->request.priority = priority;
    table_->queue(*slot);
  }
  wake_one_for_work();
  return true;
}

CancelResult IoService::cancel(RequestId id) { return cancel(id, true); }

bool IoService::withdraw(RequestId id) { return cancel(id, false) == CancelResult::withdrawn; }

CancelResult IoService::cancel(RequestId id, bool also_in_flight) {
  ReadRequest withdrawn;
  {
    MutexLock lock(mutex_);
    RequestSlot* const slot = table_->find(id);
    if (slot == nullptr) return CancelResult::unknown;
    if (slot->in_flight) {
      if (also_in_flight) slot->cancelled.store(true, std::memory_order_relaxed);
      return CancelResult::in_flight;
    }
    table_->unqueue(*slot);
    withdrawn = table_->erase(*slot);
    --usage_.queued;
    usage_.critical_unfinished -= withdrawn.priority == Priority::critical;
    // It may have stood before others, waiting for bytes that they don't need.
    wake_one_for_work();
  }
  withdrawn = {};
  report_withdrawn(id);
  return CancelResult::withdrawn;
}

void IoService::report_withdrawn(RequestId id) { sink_.complete({.id = id, .status = ReadStatus::cancelled}); }

void IoService::count_in_flight(const ReadRequest& request, bool begins) {
  if (request.priority == Priority::critical) return;
  if (begins) {
    ++usage_.speculative_in_flight;
    usage_.speculative_bytes += request.length;
    usage_.peak_speculative_bytes = std::max(usage_.peak_speculative_bytes, usage_.speculative_bytes);
  } else {
    --usage_.speculative_in_flight;
    usage_.speculative_bytes -= request.length;
  }
}

// Takes the next read that may begin off its queue and into flight; null if there is none.
RequestSlot* IoService::begin_next() {
  RequestSlot* slot = table_->first(Priority::critical);
  if (slot == nullptr) {
    slot = table_->first(Priority::prefetch);
    if (slot == nullptr) slot = table_->first(Priority::background);
    if (slot == nullptr) return nullptr;
    const uint64_t bytes = usage_.speculative_bytes;
    const bool fits = bytes <= options_.inflight_bytes && slot->request.length <= options_.inflight_bytes - bytes;
    if (!fits && usage_.speculative_in_flight > 0) return nullptr;
  }
  table_->unqueue(*slot);
  slot->in_flight = true;
  --usage_.queued;
  ++usage_.in_flight;
  count_in_flight(slot->request, true);
  OMPIPE_CHECK(usage_.in_flight <= slots_, "more reads in flight than slots");
  OMPIPE_CHECK(slot->request.priority == Priority::critical || usage_.critical_unfinished == 0 ||
                   usage_.speculative_in_flight <= std::max(1u, slots_ - 1),
               "speculative reads took the slot that is kept for critical ones");
  return slot;
}

// One thread is woken at a time; it wakes the next if work is left when it has taken its own.
void IoService::wake_one_for_work() {
  if (idle_threads_ > 0 && usage_.queued > 0) work_.notify_one();
}

void IoService::perform(RequestSlot& slot, uint32_t thread) {
  const bool own_thread = options_.threads > 0;
  const int64_t cpu_before_ns = own_thread ? 0 : thread_cpu_ns();
  Completion completion = read_whole(device_, slot.request, slot.cancelled);
  completion.thread = thread;
  ReadRequest request;
  {
    MutexLock lock(mutex_);
    --usage_.in_flight;
    usage_.critical_unfinished -= slot.request.priority == Priority::critical;
    count_in_flight(slot.request, false);
    request = table_->erase(slot);
  }
  request = {};
  // Before the report, so that whoever has all reports has all of the time; waking up is in it for a thread of the
  // service.
  const auto cpu_ns = static_cast<uint64_t>(thread_cpu_ns() - cpu_before_ns);
  if (own_thread) {
    cpu_ns_[thread].store(cpu_ns, std::memory_order_relaxed);
  } else {
    cpu_ns_[thread].fetch_add(cpu_ns, std::memory_order_relaxed);
  }
  sink_.complete(std::move(completion));
}

void IoService::serve(uint32_t thread) {
  pthread_setname_np(pthread_self(), ("ompipe-io-" + std::to_string(thread)).c_str());
  if (options_.on_thread_start) options_.on_thread_start(thread);
  for (;;) {
    RequestSlot* slot = nullptr;
    {
      MutexLock lock(mutex_);
      ++idle_threads_;
      while (!closed_ && (slot = begin_next()) == nullptr) work_.wait(mutex_);
      --idle_threads_;
      if (slot == nullptr) return;
      wake_one_for_work();
    }
    perform(*slot, thread);
  }
}

bool IoService::run_one() {
  OMPIPE_CHECK(options_.threads == 0, "the service has threads of its own");
  RequestSlot* slot;
  {
    MutexLock lock(mutex_);
    slot = begin_next();
  }
  if (slot == nullptr) return false;
  perform(*slot, 0);
  return true;
}

void IoService::close() {
  std::vector<ReadRequest> withdrawn;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    for (size_t priority = 0; priority < kPriorities; ++priority) {
      while (RequestSlot* const slot = table_->first(static_cast<Priority>(priority))) {
        table_->unqueue(*slot);
        withdrawn.push_back(table_->erase(*slot));
      }
    }
    usage_.queued = 0;
    uint32_t critical_in_flight = 0;
    table_->for_each([&](RequestSlot& slot) {
      slot.cancelled.store(true, std::memory_order_relaxed);
      critical_in_flight += slot.request.priority == Priority::critical;
    });
    usage_.critical_unfinished = critical_in_flight;
    work_.notify_all();
  }
  for (ReadRequest& request : withdrawn) {
    const RequestId id = std::exchange(request, {}).id;
    report_withdrawn(id);
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

IoUsage IoService::usage() const {
  MutexLock lock(mutex_);
  return usage_;
}

uint64_t IoService::cpu_ns() const {
  uint64_t sum = 0;
  for (uint32_t slot = 0; slot < slots_; ++slot) sum += cpu_ns_[slot].load(std::memory_order_relaxed);
  return sum;
}

}  // namespace ompipe::io
