// The queue into a serial context: any thread posts, one thread takes batches.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "ompipe/schedule/scheduler.h"

namespace ompipe::schedule {

// Bounded by what is outstanding (tasks, reads, calls of users), so its storage stops growing after the first moments.
class MessageQueue {
 public:
  MessageQueue() { messages_.reserve(kReserved); }

  void post(const Message& message) {
    {
      std::lock_guard lock(mutex_);
      messages_.push_back(message);
    }
    available_.notify_one();
  }
  // Replaces the content of `batch`; waits for at least one message.
  void take(std::vector<Message>& batch) {
    empty(batch);
    std::unique_lock lock(mutex_);
    available_.wait(lock, [&] { return !messages_.empty(); });
    messages_.swap(batch);
  }
  // The same without waiting; false when there was none.
  bool try_take(std::vector<Message>& batch) {
    empty(batch);
    std::lock_guard lock(mutex_);
    messages_.swap(batch);
    return !batch.empty();
  }

 private:
  static constexpr size_t kReserved = 1024;
  // The batch becomes the queue's next storage.
  static void empty(std::vector<Message>& batch) {
    batch.clear();
    batch.reserve(kReserved);
  }

  std::mutex mutex_;
  std::condition_variable available_;
  std::vector<Message> messages_;
};

}  // namespace ompipe::schedule
