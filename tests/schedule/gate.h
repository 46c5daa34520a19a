// What tests wait with instead of time: a door that one thread opens and others wait at.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ompipe::schedule {

// Any thread. wait gives up after half a minute, so that a broken scheduler fails a test instead of hanging it.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  // False if it was given up.
  [[nodiscard]] bool wait() {
    std::unique_lock lock(mutex_);
    return opened_.wait_for(lock, std::chrono::seconds(30), [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace ompipe::schedule
