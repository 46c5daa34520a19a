// What callers ask of the policy and wait for: limits that change, trimming, and whatever ends a completion.
#include <fmt/format.h>

#include "option_parts.h"
#include "runtime_core.h"

namespace ompipe::session {

using arenas::BlockArena;

Status RuntimeCore::ask(const std::function<void(Completion&)>& event) {
  Completion done;
  call([&] { event(done); });
  done.wait();
  return *done.status;
}

MemoryLimits RuntimeCore::limits() const {
  return memory_limits(budget_.limits(), options_.limits.io_inflight_bytes, retained_limit_bytes_);
}

Status RuntimeCore::set_limits(const MemoryLimits& limits) {
  if (limits.io_inflight_bytes != options_.limits.io_inflight_bytes) {
    return Error{ErrorKind::usage, "set limits", "io_inflight_bytes",
                 fmt::format("is {} while the runtime is open, {} was asked for", options_.limits.io_inflight_bytes,
                             limits.io_inflight_bytes)};
  }
  Status status = ask([&](Completion& done) { policy_.set_limits(budget_limits(limits), done); });
  if (!status.ok()) return status;
  retained_limit_bytes_ = limits.retained_bytes;
  for (BlockArena* arena : {&preparation_, &execution_, &io_arena_}) arena->set_retention_cap(limits.retained_bytes);
  return status;
}

Result<uint64_t> RuntimeCore::trim(uint64_t bytes) {
  if (Status status = ask([&](Completion& done) { policy_.trim(bytes, done); }); !status.ok()) return status.error();
  return budget_.usage().global_bytes;
}

}  // namespace ompipe::session
