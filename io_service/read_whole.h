// Carries one request through its device to the end: progress, interruptions, early ends, cancellation.
#pragma once

#include <atomic>

#include "ompipe/io/io_service.h"

namespace ompipe::io {

// Runs on the calling thread until all bytes are there, an error, or `cancelled` is seen between two device calls. Then
// checks that the file is still the one that was opened. Fills everything of the completion but `thread`.
Completion read_whole(Device& device, const ReadRequest& request, const std::atomic<bool>& cancelled);

}  // namespace ompipe::io
