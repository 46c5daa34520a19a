// Bounded I/O threads that take reads by priority from one queue, and report each with a small event.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/arenas/mutex.h"
#include "ompipe/io/device.h"
#include "ompipe/io/limits.h"

namespace ompipe::io {

using RequestId = uint64_t;

// The first is served first. Everything but critical is speculative.
enum class Priority : uint8_t { critical, prefetch, background };
inline constexpr size_t kPriorities = 3;

// One read. The service keeps `file` and `destination_owner` until just before it reports the request.
struct ReadRequest {
  RequestId id = 0;  // chosen by the caller; unique among the requests that are not reported yet
  std::shared_ptr<const FileHandle> file = {};
  uint64_t offset = 0;
  uint64_t length = 0;
  // At least `length` bytes, which nobody else touches until the request is reported; empty for a mapped read. Without
  // an owner the submitter keeps the bytes alive that long. For a direct read without copies it is aligned to
  // kDirectAlignment, as the offset is.
  std::span<std::byte> destination = {};
  std::shared_ptr<const void> destination_owner = {};
  ReadMode mode = ReadMode::buffered;
  Priority priority = Priority::critical;
  uint64_t plan_position = 0;  // within a priority the smallest first, then the order of submission
};

enum class ReadStatus : uint8_t {
  done,       // all bytes are there
  cancelled,  // withdrawn before it began, or thrown away on arrival
  failed,     // `error` says why
};

// The report of one accepted request; exactly one for each.
struct Completion {
  RequestId id = 0;
  ReadStatus status = ReadStatus::done;
  uint32_t thread = 0;                      // index of the I/O thread
  uint64_t bytes = 0;                       // that arrived
  int64_t start_ns = 0, end_ns = 0;         // CLOCK_MONOTONIC around the device's calls; both 0 if it never began
  MappedBytes mapped = {};                  // of a mapped read that is done: populated, with its owner
  std::shared_ptr<const Error> error = {};  // of a failed one: phase "read", file, range wanted, bytes got, errno
};

// Where completions go. `complete` is called on an I/O thread (for a withdrawn request on the thread that cancelled or
// closed), without any lock of the service held, concurrently for different requests. It must not block and must not
// call the service: it enqueues.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void complete(Completion completion) noexcept = 0;
};

struct IoOptions {
  uint32_t threads = kDefaultThreads;               // 0: reads happen in run_one() only
  uint64_t inflight_bytes = kDefaultInflightBytes;  // of speculative reads that have begun and aren't done
  uint32_t max_requests = kDefaultMaxRequests;      // queued and in flight
  std::function<void(uint32_t thread)> on_thread_start =
      {};  // first thing on each I/O thread: pinning, scheduling slice
};

enum class SubmitResult : uint8_t { accepted, full, closed };
enum class CancelResult : uint8_t {
  withdrawn,  // it was queued, and has been reported as cancelled
  in_flight,  // it will be reported as cancelled when the device returns, unless it fails or is done already
  unknown,    // no such request: it was reported before
};

struct IoUsage {
  uint32_t queued = 0;
  uint32_t in_flight = 0;
  uint32_t speculative_in_flight = 0;
  uint64_t speculative_bytes = 0;  // in flight
  uint32_t critical_unfinished = 0;
  uint64_t peak_speculative_bytes = 0;
  uint64_t promotions = 0;
};

class RequestTable;
struct RequestSlot;

// Bounds: at most max(1, threads) reads in flight; speculative reads in flight hold at most inflight_bytes, or are a
// single one that is larger. The next read is always the first of the highest priority that has any: a lower one never
// overtakes a higher one that waits for bytes. So while a critical read is unfinished, it is either next or holds a
// slot, and speculative reads hold at most max(1, slots - 1) slots; the service checks that each time it starts one.
// Memory: everything a request needs (slot, queue, index) is reserved by the constructor for max_requests. A read
// allocates nothing after that, but for the owner of a mapping, an error's text, and a reading thread's bounce buffer
// at its first unaligned direct read. All functions may be called from any thread.
class IoService {
 public:
  // `device` and `sink` outlive the service. If the system refuses a thread, the service is closed at once: see
  // status().
  IoService(Device& device, CompletionSink& sink, IoOptions options);
  // Closes.
  ~IoService();
  IoService(const IoService&) = delete;
  IoService& operator=(const IoService&) = delete;

  // Queues a read. Refuses when max_requests are unreported, or after close(). An id in use is the programmer's error.
  SubmitResult submit(ReadRequest request);

  // Moves a request to another priority, up or down: a queued one changes its place, one in flight changes whose bytes
  // it counts in. False if it was reported already.
  bool promote(RequestId id, Priority priority);

  CancelResult cancel(RequestId id);
  // Cancels a request that is still queued; false, and nothing changes, if it is in flight or was reported.
  bool withdraw(RequestId id);

  // Executes the next read that may begin on the calling thread and reports it; false if there is none. Only with
  // threads == 0, and by one thread at a time.
  bool run_one();

  // Cancels everything, waits for what is in flight, ends the threads. After it every accepted request has been
  // reported. By one thread only; a second call does nothing.
  void close();

  // Whether every thread could be started; else environment, with errno.
  const Status& status() const { return started_; }

  IoUsage usage() const;
  uint64_t cpu_ns() const;  // of the I/O threads, or of run_one(); complete for what is reported
  uint32_t slots() const { return slots_; }

 private:
  void serve(uint32_t thread);
  RequestSlot* begin_next() OMPIPE_REQUIRES(mutex_);
  void wake_one_for_work() OMPIPE_REQUIRES(mutex_);
  void perform(RequestSlot& slot, uint32_t thread);
  void count_in_flight(const ReadRequest& request, bool begins) OMPIPE_REQUIRES(mutex_);
  CancelResult cancel(RequestId id, bool also_in_flight);
  void report_withdrawn(RequestId id);

  Device& device_;
  CompletionSink& sink_;
  const IoOptions options_;
  const uint32_t slots_;

  mutable Mutex mutex_;
  std::condition_variable_any work_;
  const std::unique_ptr<RequestTable> table_ OMPIPE_THREAD_ANNOTATION(pt_guarded_by(mutex_));
  IoUsage usage_ OMPIPE_GUARDED_BY(mutex_);
  uint32_t idle_threads_ OMPIPE_GUARDED_BY(mutex_) = 0;
  bool closed_ OMPIPE_GUARDED_BY(mutex_) = false;

  const std::unique_ptr<std::atomic<uint64_t>[]> cpu_ns_;  // one a slot, written by its thread
  Status started_ = ok_status();                           // written by the constructor only
  std::vector<std::thread> threads_;
};

}  // namespace ompipe::io
