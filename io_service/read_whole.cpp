#include "read_whole.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ompipe/io/meter.h"

namespace ompipe::io {
namespace {

// The read under way. `got` is its progress: what is left is always [offset + got, offset + length).
struct Progress {
  const ReadRequest& request;
  const std::atomic<bool>& cancelled;
  uint64_t got = 0;
  uint32_t interruptions = 0;  // in a row

  bool is_complete() const { return got == request.length; }
  bool is_cancelled() const { return cancelled.load(std::memory_order_relaxed); }

  // Whether an errno means: the same call again.
  bool retries(int errno_value) { return errno_value == EINTR && ++interruptions < kMaxInterruptions; }
  void advance(uint64_t bytes) {
    got += bytes;
    interruptions = 0;
  }
};

std::shared_ptr<const Error> failure(const Progress& progress, std::string reason, int errno_value) {
  const ReadRequest& request = progress.request;
  return std::make_shared<const Error>(Error{.phase = "read",
                                             .subject = "",
                                             .reason = std::move(reason),
                                             .file = request.file->path(),
                                             .offset = request.offset,
                                             .length = request.length,
                                             .got = progress.got,
                                             .errno_value = errno_value});
}

std::shared_ptr<const Error> call_failed(const Progress& progress, int errno_value) {
  const ReadMode mode = progress.request.mode;
  if (mode == ReadMode::direct && errno_value == EINVAL) {
    return failure(progress, "the file system refuses direct reads; use buffered or mapped ones", EINVAL);
  }
  if (mode == ReadMode::mapped && errno_value == EINVAL) {
    return failure(progress, "the range cannot be mapped and populated (needs Linux 5.14)", EINVAL);
  }
  if (mode == ReadMode::mapped && errno_value == EFAULT) {
    return failure(progress, "the file ended early under its mapping", EFAULT);
  }
  return failure(progress, "the device failed", errno_value);
}

std::shared_ptr<const Error> read_into_destination(Device& device, Progress& progress) {
  const ReadRequest& request = progress.request;
  while (!progress.is_complete() && !progress.is_cancelled()) {
    const auto rest = request.destination.subspan(progress.got, request.length - progress.got);
    const ssize_t got = device.read(*request.file, request.offset + progress.got, rest, request.mode);
    if (got > 0) {
      progress.advance(static_cast<uint64_t>(got));
    } else if (got == 0) {
      return failure(progress, "the file ended early", 0);
    } else if (!progress.retries(static_cast<int>(-got))) {
      return call_failed(progress, static_cast<int>(-got));
    }
  }
  return nullptr;
}

std::shared_ptr<const Error> map_and_populate(Device& device, Progress& progress, MappedBytes& mapped) {
  const ReadRequest& request = progress.request;
  if (const Status range = request.file->check_range(request.offset, request.length); !range) {
    return std::make_shared<const Error>(range.error());
  }
  while (mapped.owner == nullptr) {
    if (progress.is_cancelled()) return nullptr;
    MapOutcome outcome = device.map(request.file, request.offset, request.length);
    if (outcome.error == 0) {
      mapped = std::move(outcome.mapped);
    } else if (!progress.retries(outcome.error)) {
      return call_failed(progress, outcome.error);
    }
  }
  while (!progress.is_complete() && !progress.is_cancelled()) {
    const uint64_t step = std::min(kPopulateBytes, request.length - progress.got);
    const int error =
        device.populate(*request.file, request.offset + progress.got, mapped.bytes.subspan(progress.got, step));
    if (error == 0) {
      progress.advance(step);
    } else if (!progress.retries(error)) {
      return call_failed(progress, error);
    }
  }
  return nullptr;
}

}  // namespace

Completion read_whole(Device& device, const ReadRequest& request, const std::atomic<bool>& cancelled) {
  Completion completion{.id = request.id, .start_ns = monotonic_ns()};
  Progress progress{request, cancelled};
  completion.error = request.mode == ReadMode::mapped ? map_and_populate(device, progress, completion.mapped)
                                                      : read_into_destination(device, progress);
  if (completion.error == nullptr && !progress.is_cancelled()) {
    const Status unchanged = request.file->check_unchanged();
    if (!unchanged) completion.error = std::make_shared<const Error>(unchanged.error());
  }
  completion.bytes = progress.got;
  completion.end_ns = monotonic_ns();
  // Failure first: whoever cancelled a read doesn't mind, and the counts of errors stay true.
  if (completion.error != nullptr) {
    completion.status = ReadStatus::failed;
  } else if (progress.is_cancelled()) {
    completion.status = ReadStatus::cancelled;
  }
  if (completion.status != ReadStatus::done) completion.mapped = {};
  return completion;
}

}  // namespace ompipe::io
