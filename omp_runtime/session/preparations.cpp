// Preparations: every object of a plan, in the order of first use, into bytes that were reserved as a whole.
#include <fmt/format.h>

#include <algorithm>

#include "policy.h"

namespace ompipe::session {

using arenas::Domain;
using arenas::DomainBytes;
using store::Residency;

void Policy::prepare(std::unique_ptr<Preparation> preparation) {
  SessionState& session = *preparation->session;
  const size_t objects = session.objects.size();
  for (std::vector<bool>* set : {&preparation->wanted, &preparation->settled, &preparation->reserved_for})
    set->assign(objects, false);
  // What a branch may never need is read when it is chosen.
  for (size_t id = 0; id < objects; ++id) preparation->settled[id] = !session.plan->objects[id].certain;
  if (Status status = fits(budget_.limits(), *preparation); !status.ok()) {
    preparation->completion->complete(std::move(status));
    return;
  }
  ++session.preparations;
  preparations_.push_back(std::move(preparation));
}

// Everything resident at once, and the staging of one object, beside what is kept for critical work.
Status Policy::fits(const arenas::BudgetLimits& limits, const Preparation& preparation) {
  if (preparation.fill_to_limit) return ok_status();
  const SessionState& session = *preparation.session;
  const std::string& model = session.plan->model->metadata().path;
  DomainBytes need;
  for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) {
    for (Domain domain : {Domain::preparation, Domain::mapped})
      need[domain] = std::max(need[domain], session.need_of(id)[domain]);
    if (session.plan->objects[size_t(id)].certain) need[Domain::prepared] += session.need_of(id)[Domain::prepared];
  }
  for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) {
    const uint64_t sources = session.need_of(id)[Domain::device] - session.resident_of(id)[Domain::device];
    need[Domain::device] = std::max(need[Domain::device], session.plan->device_bytes + sources);
  }
  if (Status status = arenas::Budget::fits_limits(limits, need, "prepare", model); !status.ok()) return status;
  const uint64_t total = need[Domain::preparation] + need[Domain::prepared];
  if (limits.global_bytes - total >= limits.critical_reserve_bytes) return ok_status();
  return Error{
      ErrorKind::cannot_fit, "prepare", model,
      fmt::format("{} bytes are needed (prepared {}, staging {}) beside a critical reserve of {}, the limit is {}",
                  total, need[Domain::prepared], need[Domain::preparation], limits.critical_reserve_bytes,
                  limits.global_bytes)};
}

void Policy::serve_preparations() {
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->error) continue;
    if (preparation->started || start(*preparation)) {
      advance(*preparation);
    } else if (!preparation->error) {
      return;
    }
  }
}

// Reserves the prepared bytes of the whole missing set at once; pending until that is granted. What the session has
// already is not evicted for it.
bool Policy::start(Preparation& preparation) {
  SessionState& session = *preparation.session;
  const auto objects = plan::ObjectId(session.objects.size());
  DomainBytes missing;
  for (plan::ObjectId id = 0; id < objects; ++id) {
    const Residency state = session.store->state(id);
    if (!session.plan->objects[size_t(id)].certain) continue;
    if (is_leaving(session, id)) return false;
    if (state == Residency::absent || state == Residency::failed) missing = sum_of(missing, session.resident_of(id));
  }
  if (!preparation.fill_to_limit && missing != DomainBytes{}) {
    ++session.kept;
    std::optional<arenas::Reservation> reservation = reserve_with_trim(missing);
    if (!reservation && eviction_suffices(missing)) reservation = reserve_with_eviction(missing);
    --session.kept;
    if (!reservation) {
      if (nothing_under_way())
        preparation.error = budget_.refusal(missing, "prepare", session.plan->model->metadata().path);
      return false;
    }
    preparation.reservation = std::move(*reservation);
  }
  preparation.outstanding = 0;
  preparation.cursor = 0;
  for (plan::ObjectId id = 0; id < objects; ++id) {
    const Residency state = session.store->state(id);
    const bool wanted = state != Residency::resident && !preparation.settled[size_t(id)];
    preparation.wanted[size_t(id)] = wanted;
    if (wanted) revive(session, id);
    preparation.reserved_for[size_t(id)] = !preparation.fill_to_limit && session.plan->objects[size_t(id)].certain &&
                                           (state == Residency::absent || state == Residency::failed);
    preparation.outstanding += wanted;
  }
  preparation.started = true;
  return true;
}

// Whether an event of the policy's own may still give bytes back.
bool Policy::nothing_under_way() {
  return live_.empty() && in_flight_.empty() && orphan_rows_.empty() && leaving_bytes_ == 0 && !hot_busy(nullptr);
}

// Preparations that have reserved bytes which they have not drawn give them back to a refused gang, and are pending
// again: held, they would wait for staging beside invocations that wait for them. True if there were any.
bool Policy::withdraw_preparations() {
  bool any = false;
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->reservation.left_bytes(Domain::prepared) + preparation->reservation.left_bytes(Domain::device) ==
        0)
      continue;
    restart(*preparation);
    any = true;
  }
  return any;
}

// What it has reserved and not drawn goes back, and it is pending again.
void Policy::restart(Preparation& preparation) {
  preparation.reservation.release();
  preparation.reserved_for.assign(preparation.reserved_for.size(), false);
  preparation.started = false;
}

// Nothing gives staging back any more but what others have resident: that goes.
bool Policy::admit_alone(SessionState& session, plan::ObjectId id) {
  DomainBytes need = session.need_of(id);
  if (reserved_by(session, id)) need = without(need, session.resident_of(id));
  ++session.kept;
  std::optional<arenas::Reservation> reservation = reserve_with_eviction(need);
  --session.kept;
  if (!reservation) return false;
  reservation->merge(take_reserved(session, id));
  admit(session, id, Priority::prefetch, std::move(*reservation));
  return true;
}

// Admits the next objects while tokens and staging last: in two rounds, because a table that is read by rows meanwhile
// is nobody's next. An object that was published once, or is on its way, is passed over.
void Policy::advance(Preparation& preparation) {
  SessionState& session = *preparation.session;
  const auto objects = plan::ObjectId(session.objects.size());
  for (; preparation.cursor < 2 * objects; ++preparation.cursor) {
    const plan::ObjectId id = preparation.cursor % objects;
    const bool second_round = preparation.cursor >= objects;
    if (session.plan->objects[size_t(id)].row_addressable != second_round) continue;
    const Residency state = session.store->state(id);
    if (!preparation.wanted[size_t(id)] || (state != Residency::absent && state != Residency::failed)) continue;
    if (!speculative_tokens()) return;
    if (admit_speculative(session, id, Priority::prefetch) == Grant::granted) continue;
    if (!preparation.fill_to_limit) {
      if (!nothing_under_way()) return;
      if (admit_alone(session, id)) continue;
      if (nothing_under_way())
        preparation.error = budget_.refusal(session.need_of(id), "prepare", session.plan->objects[size_t(id)].name);
      return;
    }
    // Its own loads give staging back. What others hold it doesn't wait for: they may never pause.
    if (session.in_flight > 0 || leaving_bytes_ > 0) return;
    // Filled to the limit: what is left stays absent.
    preparation.wanted.assign(size_t(objects), false);
    preparation.outstanding = 0;
    return;
  }
}

// The preparation that holds prepared bytes for this object which nobody has drawn; null if there is none.
Preparation* Policy::reserved_by(const SessionState& session, plan::ObjectId id) const {
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->session == &session && preparation->reserved_for[size_t(id)]) return preparation.get();
  }
  return nullptr;
}

// These bytes, out of the preparation's reservation; empty if there are none.
arenas::Reservation Policy::take_reserved(const SessionState& session, plan::ObjectId id) {
  Preparation* const holder = reserved_by(session, id);
  if (!holder) return {};
  holder->reserved_for[size_t(id)] = false;
  return holder->reservation.split(session.resident_of(id));
}

// The object is resident, or its generation has failed.
void Policy::object_settled(SessionState& session, plan::ObjectId id, const std::optional<Error>& error) {
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->session != &session || !preparation->wanted[size_t(id)]) continue;
    preparation->wanted[size_t(id)] = false;
    preparation->settled[size_t(id)] = true;
    --preparation->outstanding;
    if (error && !preparation->error) {
      preparation->error = error;
      preparation->completion->diagnostics.failed_task = failed_task(session, id);
    }
  }
}

// A failed or cancelled one admits nothing more and is terminal at once; what it has in flight is abandoned unless
// others want it. True if one has ended.
bool Policy::finish_preparations() {
  const size_t before = preparations_.size();
  for (size_t i = 0; i < preparations_.size();) {
    Preparation& preparation = *preparations_[i];
    const bool ended = preparation.error || (preparation.started && preparation.outstanding == 0);
    if (!ended) {
      ++i;
      continue;
    }
    const std::unique_ptr<Preparation> done = std::move(preparations_[i]);
    preparations_.erase(preparations_.begin() + ptrdiff_t(i));
    --done->session->preparations;
    done->reservation.release();
    if (done->error) abandon_unwanted(*done->session);
    done->completion->complete(done->error ? Status(*done->error) : ok_status());
  }
  return preparations_.size() < before;
}

}  // namespace ompipe::session
