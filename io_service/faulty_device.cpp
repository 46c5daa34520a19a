#include "ompipe/io/faulty_device.h"

#include <algorithm>
#include <cerrno>

#include "ompipe/io/meter.h"
#include "splitmix.h"

namespace ompipe::io {
namespace {

constexpr uint64_t kMaxDelayNs = 50'000;

// FNV-1a, because std::hash may differ from build to build and a seed must not.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

double unit(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

}  // namespace

FaultyDevice::Draw FaultyDevice::draw(const FileHandle& file, uint64_t offset) {
  uint64_t attempt;
  {
    MutexLock lock(mutex_);
    attempt = attempts_[{&file, offset}]++;
  }
  uint64_t random = splitmix(splitmix(splitmix(seed_ ^ hash_of(file.path())) ^ offset) ^ attempt);
  if (unit(random) < rates_.delay) {
    // Not by giving up the processor: on a loaded machine one sched_yield takes tens of milliseconds.
    const int64_t end_ns = monotonic_ns() + static_cast<int64_t>(splitmix(random) % kMaxDelayNs);
    while (monotonic_ns() < end_ns) {
    }
  }
  random = splitmix(random + 1);
  double left = unit(random);
  const auto happens = [&left](double rate) {
    left -= rate;
    return left < 0;
  };
  const uint64_t choice = splitmix(random + 2);
  if (happens(rates_.short_read)) return {Fault::short_read, choice};
  if (happens(rates_.interrupted)) return {Fault::interrupted, choice};
  if (happens(rates_.io_error)) return {Fault::io_error, choice};
  if (happens(rates_.early_end)) return {Fault::early_end, choice};
  return {Fault::none, choice};
}

ssize_t FaultyDevice::read(const FileHandle& file, uint64_t offset, std::span<std::byte> out, ReadMode mode) {
  const Draw drawn = draw(file, offset);
  switch (drawn.fault) {
    case Fault::interrupted:
      return -EINTR;
    case Fault::io_error:
      return -EIO;
    case Fault::early_end:
      return 0;
    case Fault::short_read:
      if (out.size() > 1) out = out.first(1 + drawn.random % (out.size() - 1));
      break;
    case Fault::none:
      break;
  }
  return inner_.read(file, offset, out, mode);
}

MapOutcome FaultyDevice::map(const std::shared_ptr<const FileHandle>& file, uint64_t offset, uint64_t length) {
  const Fault fault = draw(*file, offset).fault;
  if (fault == Fault::interrupted) return {.error = EINTR};
  if (fault == Fault::io_error) return {.error = EIO};
  if (fault == Fault::early_end) return {.error = EFAULT};
  return inner_.map(file, offset, length);
}

int FaultyDevice::populate(const FileHandle& file, uint64_t offset, std::span<const std::byte> part) {
  const Fault fault = draw(file, offset).fault;
  if (fault == Fault::interrupted) return EINTR;
  if (fault == Fault::io_error) return EIO;
  if (fault == Fault::early_end) return EFAULT;
  return inner_.populate(file, offset, part);
}

}  // namespace ompipe::io
