#include "discarder.h"

namespace ompipe::session {

Discarder::Discarder() : thread_([this] { run(); }) {}

Discarder::~Discarder() {
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
