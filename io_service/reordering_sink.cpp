#include "ompipe/io/reordering_sink.h"

#include <utility>

#include "splitmix.h"

namespace ompipe::io {

void ReorderingSink::complete(Completion completion) noexcept {
  MutexLock lock(mutex_);
  held_.push_back(std::move(completion));
}

bool ReorderingSink::deliver_one() {
  Completion chosen;
  {
    MutexLock lock(mutex_);
    if (held_.empty()) return false;
    random_ = splitmix(random_);
    std::swap(held_[random_ % held_.size()], held_.back());
    chosen = std::move(held_.back());
    held_.pop_back();
  }
  inner_.complete(std::move(chosen));
  return true;
}

size_t ReorderingSink::held() const {
  MutexLock lock(mutex_);
  return held_.size();
}

}  // namespace ompipe::io
