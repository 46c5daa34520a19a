#include "discarder.h"

#include "ompipe/arenas/start_thread.h"

namespace ompipe::session {

Status Discarder::start() {
  Result<std::thread> started = start_thread("discarder", [this] { run(); });
  if (!started.ok()) return started.error();
  thread_ = *std::move(started);
  return ok_status();
}

Discarder::~Discarder() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Discarder::discard(arenas::Allocation allocation, std::function<void()> gone) {
  {
    std::lock_guard lock(mutex_);
    items_.push_back({std::move(allocation), std::move(gone)});
  }
  changed_.notify_one();
}

void Discarder::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    item.allocation.reset();
    item.gone();
  }
}

}  // namespace ompipe::session
