// Writes recorded events as a trace that Perfetto and chrome://tracing open: one track for each thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ompipe/session/observer.h"

namespace ompipe::trace {

// The trace as text: complete events ("ph":"X") in microseconds since `start_ns`, one a task, on the track of the
// thread that ran it, with task id, scope, kind, resource class, original and effective priority, bytes in flight,
// executor, generation and source as arguments; milestones as instants.
std::string trace_json(std::span<const session::TaskEvent> events,
                       const std::array<std::optional<uint64_t>, session::kMilestones>& milestone_ns,
                       uint64_t start_ns);

}  // namespace ompipe::trace
