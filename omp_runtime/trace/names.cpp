#include <iterator>

#include "ompipe/trace/recorder.h"

namespace ompipe::trace {

const char* task_kind_name(session::TaskKind kind) {
  static constexpr const char* kNames[] = {"read", "prepack", "publish", "segment", "evict", "persist", "transfer"};
  static_assert(std::size(kNames) == kTaskKinds);
  return kNames[size_t(kind)];
}

const char* scope_name(session::Scope scope) { return scope == session::Scope::session ? "session" : "invocation"; }

const char* resource_name(session::ResourceClass resource) {
  static constexpr const char* kNames[] = {"io", "cpu", "inline", "device"};
  return kNames[size_t(resource)];
}

const char* priority_name(session::Priority priority) {
  static constexpr const char* kNames[] = {"critical", "prefetch", "background"};
  return kNames[size_t(priority)];
}

const char* source_name(session::ByteSource source) {
  static constexpr const char* kNames[] = {"none", "portable", "companion", "memory"};
  return kNames[size_t(source)];
}

const char* milestone_name(session::Milestone milestone) {
  static constexpr const char* kNames[] = {"metadata",       "resolved",
                                           "planned",        "session_ready",
                                           "first_read",     "first_prepack",
                                           "first_publish",  "first_runnable",
                                           "first_segment",  "first_output",
                                           "first_token",    "payloads_available",
                                           "fully_prepared", "end"};
  static_assert(std::size(kNames) == session::kMilestones);
  return kNames[size_t(milestone)];
}

}  // namespace ompipe::trace
