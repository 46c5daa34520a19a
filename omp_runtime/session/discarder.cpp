#include "discarder.h"

#include <algorithm>

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

void Discarder::discard(ObjectRef object, arenas::Allocation allocation, std::function<void()> gone) {
  {
    std::lock_guard lock(mutex_);
    items_.push_back({object, std::move(allocation), std::move(gone)});
  }
  changed_.notify_one();
}

arenas::Allocation Discarder::keep(ObjectRef object) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.object == object; });
  if (found == items_.end()) return {};
  arenas::Allocation allocation = std::move(found->allocation);
  items_.erase(found);
  return allocation;
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
