// Look-ahead in a plan that branches and loops: only what runs whatever is chosen.
#include "policy.h"

namespace ompipe::session {

using store::Residency;

// From where the invocation stands along the segments that run in any case, and beside each If what both of its
// branches need; bounded and without eviction as for a plan that walks straight on.
void Policy::look_ahead_over(Invocation& invocation) {
  SessionState& session = *invocation.session;
  const plan::PreparedExecutionPlan& plan = *session.plan;
  const ProgramCounter& counter = invocation.counter;
  // Nothing has changed since all in reach was there.
  const auto seen = plan::SegmentId(2 * counter.tasks() + (counter.undecided() ? 1 : 0)) + 1;
  if (invocation.looked_ahead == seen && invocation.evictions_seen == session.evictions) return;
  plan::SegmentId left = residency_limited() ? session.window.segments() : session.window.most();
  const std::optional<uint64_t> most_bytes = session.options.look_ahead.bytes;
  uint64_t ahead_bytes = 0;
  const auto admit_all = [&](const std::vector<plan::ObjectId>& objects) {
    for (const plan::ObjectId object : objects) {
      if (session.store->state(object) != Residency::absent) continue;
      if (admit_speculative(session, object, Priority::prefetch) == Grant::refused) return false;
    }
    return true;
  };
  plan::SegmentId segment = counter.next();
  if (counter.undecided()) {
    if (!admit_all(plan.segments[size_t(counter.chooser())].either)) return;
    segment = plan.join(counter.chooser());
  }
  for (; segment < plan::SegmentId(plan.segments.size()) && left > 0; segment = plan.join(segment), --left) {
    ahead_bytes += plan.gangs[size_t(segment)].prepared_bytes;
    if (most_bytes && ahead_bytes > *most_bytes) break;
    if (!admit_all(plan.segments[size_t(segment)].requirements) || !admit_all(plan.segments[size_t(segment)].either))
      return;
  }
  invocation.looked_ahead = seen;
  invocation.evictions_seen = session.evictions;
}

}  // namespace ompipe::session
