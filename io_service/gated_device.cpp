#include "ompipe/io/gated_device.h"

#include <algorithm>

namespace ompipe::io {

ssize_t GatedDevice::read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) {
  pass(file, offset, out.size());
  return inner_.read(file, offset, out, mode);
}

MapOutcome GatedDevice::map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) {
  pass(*file, offset, length);
  return inner_.map(file, offset, length);
}

bool GatedDevice::Range::covers(const StartedRead& read) const {
  return file == read.file && read.offset >= offset && read.offset - offset < length;
}

void GatedDevice::pass(const FileHandle& file, uint64_t offset, uint64_t length) {
  const StartedRead read{&file, offset, length};
  MutexLock lock(mutex_);
  const size_t index = started_.size();
  started_.push_back(read);
  const bool open =
      all_open_ || std::any_of(opened_.begin(), opened_.end(), [&](const Range& r) { return r.covers(read); });
  if (!open) waiting_.push_back(index);
  changed_.notify_all();
  while (std::find(waiting_.begin(), waiting_.end(), index) != waiting_.end()) changed_.wait(mutex_);
}

void GatedDevice::open(const FileHandle& file, uint64_t offset, uint64_t length) {
  const Range range{&file, offset, length};
  MutexLock lock(mutex_);
  opened_.push_back(range);
  std::vector<size_t> still_waiting;
  for (const size_t index : waiting_) {
    if (!range.covers(started_[index])) still_waiting.push_back(index);
  }
  waiting_ = std::move(still_waiting);
  changed_.notify_all();
}

void GatedDevice::open_next() {
  MutexLock lock(mutex_);
  while (waiting_.empty()) changed_.wait(mutex_);
  waiting_.erase(waiting_.begin());
  changed_.notify_all();
}

void GatedDevice::open_all() {
  MutexLock lock(mutex_);
  all_open_ = true;
  waiting_.clear();
  changed_.notify_all();
}

void GatedDevice::close_all() {
  MutexLock lock(mutex_);
  all_open_ = false;
  opened_.clear();
}

void GatedDevice::wait_started(size_t count) {
  MutexLock lock(mutex_);
  while (started_.size() < count) changed_.wait(mutex_);
}

void GatedDevice::wait_started(const FileHandle& file, uint64_t offset) {
  const auto begins = [&](const StartedRead& read) { return read.file == &file && read.offset == offset; };
  MutexLock lock(mutex_);
  while (std::none_of(started_.begin(), started_.end(), begins)) changed_.wait(mutex_);
}

std::vector<StartedRead> GatedDevice::started() {
  MutexLock lock(mutex_);
  return started_;
}

size_t GatedDevice::waiting() {
  MutexLock lock(mutex_);
  return waiting_.size();
}

}  // namespace ompipe::io
