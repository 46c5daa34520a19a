#include "ompipe/io/memory_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ompipe::io {

std::shared_ptr<const FileHandle> MemoryDevice::add(const std::string& name, std::vector<std::byte> bytes) {
  auto handle = FileHandle::in_memory(name, bytes.size());
  auto shared = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  MutexLock lock(mutex_);
  files_.emplace(handle.get(), Entry{handle, std::move(shared)});
  return handle;
}

MemoryDevice::Bytes MemoryDevice::find(const FileHandle& file) {
  MutexLock lock(mutex_);
  const auto found = files_.find(&file);
  return found == files_.end() ? nullptr : found->second.bytes;
}

ssize_t MemoryDevice::read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) {
  OMPIPE_CHECK(mode != ReadMode::mapped);
  Meter::Call call(meter_);
  const Bytes bytes = find(file);
  if (bytes == nullptr) return -EBADF;
  if (offset >= bytes->size() || out.empty()) return 0;
  const uint64_t length = std::min<uint64_t>(out.size(), bytes->size() - offset);
  std::memcpy(out.data(), bytes->data() + offset, length);
  call.delivered(length);
  return static_cast<ssize_t>(length);
}

MapOutcome MemoryDevice::map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) {
  Meter::Call call(meter_);
  const Bytes bytes = find(*file);
  if (bytes == nullptr) return {.error = EBADF};
  return {.error = 0, .mapped = {std::span(*bytes).subspan(offset, length), bytes, file->identity()}};
}

int MemoryDevice::populate(const FileHandle&, uint64_t, std::span<const std::byte> part) {
  Meter::Call(meter_).delivered(part.size(), /*mapped=*/true);
  return 0;
}

}  // namespace ompipe::io
