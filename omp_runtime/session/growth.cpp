// Memory for shapes that a segment finds while it runs.
#include <fmt/format.h>

#include <utility>

#include "policy.h"

namespace ompipe::session {

using arenas::BlockArena;
using arenas::Domain;
using arenas::DomainBytes;

// A segment that lacks memory becomes another task once it has that; pins and rows stay. Without it its invocation
// fails, alone.
bool Policy::goes_on(Invocation& invocation, Invocation::LiveSegment& reported) {
  if (invocation.error || invocation.body_errors[reported.task % schedule::kSegmentsAhead]) return false;
  const exec::MemoryWanted wanted = invocation.work->wanted();
  if (wanted.bytes == 0) return false;
  if (const std::optional<Error> error = grow(invocation, wanted)) {
    fail(invocation, *error, "segment " + invocation.session->plan->segments[size_t(reported.segment)].name);
    return false;
  }
  for (const schedule::PublishToken token : std::exchange(reported.named, {})) {
    --publishes_[size_t(token)].named;
    release_publish(token);
  }
  reported.task = invocation.counter.again();
  invocation.segments[reported.task % schedule::kSegmentsAhead] = reported.segment;
  invocation.live.push_back(std::move(reported));
  scheduler_->create_segment(invocation.slot, {});
  return true;
}

// What invocations and results hold: execution, outputs, activations on the device.
DomainBytes Policy::live_beside_gangs() const {
  const DomainBytes live = budget_.usage().live_bytes();
  return {{Domain::execution, live[Domain::execution]},
          {Domain::io, live[Domain::io]},
          {Domain::device, device_block_bytes_}};
}

// Whether every session's largest gang still fits beside so many bytes and all that are live, kept frames apart. What
// is refused has the numbers of a session whose gang doesn't, which need not be the one that asks.
Status Policy::room_for(const DomainBytes& memory) {
  for (;;) {
    const DomainBytes together = sum_of(memory, live_beside_gangs());
    Status room = ok_status();
    for (const SessionState* session : sessions_) {
      if (room.ok()) room = fits(budget_.limits(), *session, together);
    }
    if (room.ok()) return room;
    if (trim_idle()) continue;
    Error error = room.error();
    if (sessions_.size() > 1)
      error.reason = "the largest gang of every open session has to fit beside a run, also this one's: " + error.reason;
    return error;
  }
}

// At once or not at all: what it waited for might wait for what it holds.
std::optional<Error> Policy::grow(Invocation& invocation, const exec::MemoryWanted& wanted) {
  const bool output = wanted.output >= 0;
  const Domain domain = output ? Domain::io : Domain::execution;
  for (const uint64_t bytes : {wanted.bytes, wanted.least}) {
    const uint64_t rounded = BlockArena::rounded_bytes(bytes);
    if (!room_for({{domain, rounded}}).ok()) continue;
    std::optional<arenas::Reservation> reservation = reserve_with_eviction({{domain, rounded}}, invocation.age);
    if (!reservation) continue;
    Result<arenas::Allocation> memory = (output ? io_ : execution_).allocate(*reservation, bytes);
    OMPIPE_CHECK(memory.ok(), "the system has no memory for bytes within the budget");
    invocation.work->grow(wanted, std::move(*memory));
    return std::nullopt;
  }
  const arenas::BudgetLimits limits = budget_.limits();
  const arenas::BudgetUsage usage = budget_.usage();
  const SessionState& session = *invocation.session;
  return Error{
      ErrorKind::cannot_fit, "run", session.plan->model->metadata().path,
      fmt::format("shapes found while it ran need {} more bytes of {}; {} are live, the limit is {} (all "
                  "domains: {} of {}), and the largest gang takes {}",
                  wanted.least, arenas::domain_name(domain), usage[domain].live_bytes, limits.domain_bytes[domain],
                  usage.global_bytes, limits.global_bytes, session.largest_gang_total)};
}

}  // namespace ompipe::session
