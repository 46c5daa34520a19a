// Bytes that callers ask back: one object, all of a session, or down to a number. Nothing that is in use goes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policy.h"

namespace ompipe::session {

using store::Residency;

// A key names one object; several may have the name of one source.
void Policy::evict_named(SessionState& session, const std::string& wanted, Completion& done) {
  const std::vector<plan::PreparedObject>& objects = session.plan->objects;
  std::vector<plan::ObjectId> of_key, of_name;
  for (plan::ObjectId id = 0; id < plan::ObjectId(objects.size()); ++id) {
    if (objects[size_t(id)].key == wanted) of_key.push_back(id);
    if (objects[size_t(id)].name == wanted) of_name.push_back(id);
  }
  const std::vector<plan::ObjectId>& found = of_key.empty() ? of_name : of_key;
  if (found.size() == 1) return evict_idle(session, found, done);
  const char* const reason =
      found.empty() ? "no prepared object has this key or name" : "several objects have this name; their keys differ";
  done.complete(Error{ErrorKind::usage, "evict", wanted, reason, session.plan->model->metadata().path});
}

void Policy::evict_all(SessionState& session, Completion& done) {
  std::vector<plan::ObjectId> all;
  all.reserve(session.objects.size());
  for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) all.push_back(id);
  evict_idle(session, all, done);
}

Status Policy::may_evict(const SessionState& session, plan::ObjectId id) const {
  const auto refuse = [&](std::string reason) {
    return Error{ErrorKind::busy, "evict", session.plan->objects[size_t(id)].name, std::move(reason),
                 session.plan->model->metadata().path};
  };
  const int pins = session.objects[size_t(id)].pins;
  if (pins > 0) return refuse(fmt::format("pinned by {} created segments; not before they have run", pins));
  const Residency state = session.store->state(id);
  const bool loads = state == Residency::loading || state == Residency::preparing;
  if (loads && !is_leaving(session, id))
    return refuse(fmt::format("it is {}; not before it is resident", store::residency_name(state)));
  return ok_status();
}

// All of them or none. A hot run that is pinned finds its session as it was.
void Policy::evict_idle(SessionState& session, const std::vector<plan::ObjectId>& objects, Completion& done) {
  for (const plan::ObjectId id : objects) {
    if (Status status = may_evict(session, id); !status.ok()) return done.complete(std::move(status));
  }
  const bool any = std::any_of(objects.begin(), objects.end(),
                               [&](plan::ObjectId id) { return session.store->state(id) == Residency::resident; });
  if (any && !session.gate.close()) {
    arm(session);
    return done.complete(Error{ErrorKind::busy, "evict", session.plan->model->metadata().path,
                               "a hot run needs every object of the session; not before it has ended"});
  }
  Release release{.done = &done, .leaving = {}};
  for (const plan::ObjectId id : objects) {
    if (session.store->state(id) == Residency::resident) evict(session, id, kNobody);
    if (!is_leaving(session, id)) continue;
    session.objects[size_t(id)].evicted_for = kNobody;
    release.leaving.push_back({&session, id});
  }
  releases_.push_back(std::move(release));
}

// Retained memory first, then frames that are kept, then objects, the one with the farthest next use foremost. Hot runs
// that are pinned keep what they need.
void Policy::shrink(uint64_t bytes) {
  for (const ObjectRef& item : leaving_) item.session->objects[size_t(item.object)].evicted_for = kNobody;
  uint64_t left = 0;
  do {
    budget_.trim_to(bytes);
    left = budget_.usage().global_bytes;
    left -= std::min(left, leaving_bytes_);
  } while (left > bytes && trim_idle());
  while (left > bytes) {
    const uint64_t evicted = evict_one(arenas::Domain::prepared, kNobody, false);
    if (evicted == 0) return;
    left -= std::min(left, evicted);
  }
}

void Policy::trim(uint64_t bytes, Completion& done) {
  shrink(bytes);
  releases_.push_back({.done = &done, .leaving = leaving_, .down_to = bytes});
}

// A trim looks twice: pages that had gone and were not yet reported were counted as still to go.
void Policy::finish_releases() {
  for (size_t i = 0; i < releases_.size();) {
    Release& release = releases_[i];
    if (release.leaving.empty() && release.down_to) {
      shrink(*std::exchange(release.down_to, std::nullopt));
      release.leaving = leaving_;
    }
    if (!release.leaving.empty() || (release.limits && !within_limits())) {
      ++i;
      continue;
    }
    Completion* const done = release.done;
    releases_.erase(releases_.begin() + ptrdiff_t(i));
    done->complete(ok_status());
  }
}

}  // namespace ompipe::session
