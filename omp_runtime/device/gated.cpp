#include "ompipe/device/gated.h"

#include <utility>

namespace ompipe::device {

Status GatedBackend::open(EventSink& sink) {
  sink_ = &sink;
  return inner_.open(sink);
}

bool GatedBackend::submit(Batch&& batch) {
  MutexLock lock(mutex_);
  if (all_open_) return inner_.submit(std::move(batch));
  if (int(held_.size()) == describe().batches) return false;
  held_.push_back(std::move(batch));
  changed_.notify_all();
  return true;
}

Batch GatedBackend::take() {
  while (held_.empty()) changed_.wait(mutex_);
  Batch batch = std::move(held_.front());
  held_.pop_front();
  return batch;
}

std::vector<Command> GatedBackend::wait_held() {
  MutexLock lock(mutex_);
  while (held_.empty()) changed_.wait(mutex_);
  return held_.front().commands;
}

size_t GatedBackend::held() {
  MutexLock lock(mutex_);
  return held_.size();
}

void GatedBackend::open_next() {
  MutexLock lock(mutex_);
  OMPIPE_CHECK(inner_.submit(take()), "what is held and what is inside are together within the queue's bound");
}

void GatedBackend::fail_next(const Error& error) {
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    id = take().id;
  }
  sink_->ended({.id = id, .error = error});
}

void GatedBackend::open_all() {
  MutexLock lock(mutex_);
  all_open_ = true;
  for (; !held_.empty(); held_.pop_front()) OMPIPE_CHECK(inner_.submit(std::move(held_.front())), "as for one of them");
}

}  // namespace ompipe::device
