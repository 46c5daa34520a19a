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
  preparation->wanted.assign(objects, false);
  preparation->reserved_for.assign(objects, false);
  DomainBytes whole = session.largest_gang;
  whole[Domain::prepared] = session.plan->packed_bytes;
  if (!preparation->fill_to_limit) {
    DomainBytes staging;
    for (plan::ObjectId id = 0; id < plan::ObjectId(objects); ++id) {
      const DomainBytes need = session.need_of(id);
      for (Domain domain : {Domain::preparation, Domain::mapped})
        staging[domain] = std::max(staging[domain], need[domain]);
    }
    staging[Domain::prepared] = session.plan->packed_bytes;
    if (Status status = budget_.fits_limits(staging, "prepare", session.plan->model->metadata().path); !status.ok()) {
      preparation->completion->complete(std::move(status));
      return;
    }
  }
  ++session.preparations;
  preparations_.push_back(std::move(preparation));
}

void Policy::serve_preparations() {
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->error) continue;
    if (!preparation->started && !start(*preparation)) return;
    advance(*preparation);
  }
}

// Reserves the prepared bytes of the whole missing set at once; pending until that is granted.
bool Policy::start(Preparation& preparation) {
  SessionState& session = *preparation.session;
  DomainBytes missing;
  for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) {
    const Residency state = session.store->state(id);
    if (state == Residency::evicting) return false;
    if (state == Residency::absent || state == Residency::failed)
      missing[Domain::prepared] += session.need_of(id)[Domain::prepared];
  }
  if (!preparation.fill_to_limit && missing[Domain::prepared] > 0) {
    std::optional<arenas::Reservation> reservation = reserve_with_eviction(missing);
    if (!reservation) return false;
    preparation.reservation = std::move(*reservation);
  }
  for (plan::ObjectId id = 0; id < plan::ObjectId(session.objects.size()); ++id) {
    const Residency state = session.store->state(id);
    if (state == Residency::resident) continue;
    preparation.wanted[size_t(id)] = true;
    preparation.reserved_for[size_t(id)] =
        !preparation.fill_to_limit && (state == Residency::absent || state == Residency::failed);
    ++preparation.outstanding;
  }
  preparation.started = true;
  return true;
}

// Admits the next objects while tokens and staging last. An object that was published once, or is on its way, is passed
// over.
void Policy::advance(Preparation& preparation) {
  SessionState& session = *preparation.session;
  for (; preparation.cursor < plan::ObjectId(session.objects.size()); ++preparation.cursor) {
    const plan::ObjectId id = preparation.cursor;
    const Residency state = session.store->state(id);
    if (!preparation.wanted[size_t(id)] || (state != Residency::absent && state != Residency::failed)) continue;
    if (free_loads_.size() <= schedule::kSegmentsAhead || free_publishes_.size() <= schedule::kSegmentsAhead) return;
    arenas::Reservation prepared = take_reserved(session, id);
    if (admit_speculative(session, id, Priority::prefetch, std::move(prepared)) == Grant::granted) continue;
    if (!preparation.fill_to_limit || !in_flight_.empty()) return;
    // Filled to the limit: what is left stays absent.
    for (plan::ObjectId rest = id; rest < plan::ObjectId(session.objects.size()); ++rest) {
      if (!preparation.wanted[size_t(rest)]) continue;
      preparation.wanted[size_t(rest)] = false;
      --preparation.outstanding;
    }
    return;
  }
}

// Prepared bytes that some preparation reserved for this object and nobody has drawn; empty if there are none.
arenas::Reservation Policy::take_reserved(SessionState& session, plan::ObjectId id) {
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->session != &session || !preparation->started || !preparation->reserved_for[size_t(id)]) continue;
    preparation->reserved_for[size_t(id)] = false;
    return preparation->reservation.split({{Domain::prepared, session.need_of(id)[Domain::prepared]}});
  }
  return {};
}

// The object is resident, or its generation has failed.
void Policy::object_settled(SessionState& session, plan::ObjectId id, const std::optional<Error>& error) {
  for (const std::unique_ptr<Preparation>& preparation : preparations_) {
    if (preparation->session != &session || !preparation->started || !preparation->wanted[size_t(id)]) continue;
    preparation->wanted[size_t(id)] = false;
    --preparation->outstanding;
    if (error && !preparation->error) {
      preparation->error = error;
      preparation->completion->diagnostics.failed_task = "prepack " + session.plan->objects[size_t(id)].name;
    }
  }
}

// A failed or cancelled one admits nothing more and is terminal at once; what it has in flight belongs to the session.
void Policy::finish_preparations() {
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
    done->completion->complete(done->error ? Status(*done->error) : ok_status());
  }
}

}  // namespace ompipe::session
