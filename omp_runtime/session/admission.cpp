// Admission: bytes and tokens first, then gates and reads; second chunks only into room that is free.
#include <algorithm>

#include "policy.h"

namespace ompipe::session {

using arenas::BlockArena;
using arenas::Domain;
using arenas::DomainBytes;
using store::Residency;

// The reservation holds need_of(object); it is empty afterwards. Tokens were looked for before.
Policy::Grant Policy::admit(SessionState& session, plan::ObjectId asked, Priority priority,
                            arenas::Reservation reservation) {
  const plan::ObjectId other = join(session, asked, reservation);
  const bool leads = other == plan::kNone || !session.on_device(asked);
  const plan::ObjectId id = leads ? asked : other, rider = leads ? other : asked;
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  ObjectState& object = session.objects[size_t(id)];
  arenas::Allocation block;
  if (spec.aux_staging_bytes > 0) {
    Result<arenas::Allocation> aux = preparation_.allocate(reservation, spec.aux_staging_bytes);
    OMPIPE_CHECK(aux.ok(), "the system has no memory for bytes within the budget");
    object.aux = std::move(*aux);
  }
  arenas::Reservation mapped;
  if (session.reads_mapped(id)) {
    mapped = reservation.split({{Domain::mapped, spec.chunk_staging_bytes}});
  } else if (spec.chunk_staging_bytes > 0) {
    Result<arenas::Allocation> staging = preparation_.allocate(reservation, spec.chunk_staging_bytes);
    OMPIPE_CHECK(staging.ok(), "the system has no memory for bytes within the budget");
    block = std::move(*staging);
  }
  begin_load(session, id, priority, reservation);
  // What rides on another's reads has none of its own to repeat.
  if (const DomainBytes dormant = session.dormant_of(id); dormant != DomainBytes{})
    object.dormant = reservation.split(dormant);
  if (rider != plan::kNone) {
    begin_load(session, rider, priority, reservation);
    session.objects[size_t(rider)].leader = id;
    session.objects[size_t(rider)].next_chunk = uint32_t(spec.chunks.size());
    object.rider = rider;
    ++counters_.shared_loads;
  }

  submit_first(session, id, take(free_loads_), std::move(block), std::move(mapped));
  return Grant::granted;
}

// Its aux reads and its first chunk.
void Policy::submit_first(SessionState& session, plan::ObjectId id, schedule::LoadToken token, arenas::Allocation block,
                          arenas::Reservation mapped) {
  ObjectState& object = session.objects[size_t(id)];
  const std::vector<plan::Read>& aux_reads = session.plan->objects[size_t(id)].aux_reads;
  object.aux_pending = int(aux_reads.size());
  object.first_read = sequence_;
  submit_reads(session, id, -1, object.token, aux_reads, object.aux.data());
  submit_chunk(session, id, token, std::move(block), std::move(mapped));
}

// The object's form for the other side, if that is wanted too, and absent, and there is room beside any gang: one read
// then serves both. Its bytes are added to the reservation. kNone: the object is loaded alone.
plan::ObjectId Policy::join(SessionState& session, plan::ObjectId id, arenas::Reservation& reservation) {
  const plan::ObjectId other = session.plan->objects[size_t(id)].other_side;
  if (other == plan::kNone || !is_wanted(session, other)) return plan::kNone;
  const Residency state = session.store->state(other);
  if (state != Residency::absent && state != Residency::failed) return plan::kNone;
  if (free_publishes_.size() < size_t(session.plan->largest_gang.objects) + 3) return plan::kNone;
  DomainBytes more = without(session.need_beside_reads(other), session.dormant_of(other));
  if (reserved_by(session, other)) more = without(more, session.resident_of(other));
  std::optional<arenas::Reservation> granted = budget_.reserve(more, arenas::Urgency::speculative);
  if (!granted) return plan::kNone;
  reservation.merge(std::move(*granted));
  reservation.merge(take_reserved(session, other));
  return other;
}

// Everything but its reads.
void Policy::begin_load(SessionState& session, plan::ObjectId id, Priority priority, arenas::Reservation& reservation) {
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  ObjectState& object = session.objects[size_t(id)];
  if (spec.recipe == plan::Recipe::pack_upload) {
    Result<arenas::Allocation> packed = preparation_.allocate(reservation, spec.bytes);
    OMPIPE_CHECK(packed.ok(), "the system has no memory for bytes within the budget");
    object.upload = std::move(*packed);
  }
  if (spec.recipe == plan::Recipe::upload_pack) {
    Result<device::Memory> sources = device_->allocate(reservation, spec.device_source_bytes);
    OMPIPE_CHECK(sources.ok(), "the device has no memory for bytes within the budget");
    object.sources = std::move(*sources);
  }
  session.store->begin(id, reservation);
  if (object.loaded_before) ++counters_.rematerialised;
  object.loaded_before = true;
  object.original = object.priority = priority;
  object.next_chunk = object.packed = 0;
  object.leader = object.rider = plan::kNone;
  object.error.reset();
  object.abandoned = object.doomed = object.falls_back = false;
  object.recipe = spec.recipe;
  in_flight_.push_back({&session, id});
  ++session.in_flight;
  object.token = take_publish(&session, id);
}

bool Policy::speculative_tokens() const {
  return free_loads_.size() > reserved_tokens_ && free_publishes_.size() > reserved_tokens_;
}

// The resident bytes come from a preparation's reservation where one holds them for the object.
Policy::Grant Policy::admit_speculative(SessionState& session, plan::ObjectId object, Priority priority) {
  if (!speculative_tokens()) return Grant::refused;
  DomainBytes need = session.need_of(object);
  if (reserved_by(session, object)) need = without(need, session.resident_of(object));
  std::optional<arenas::Reservation> reservation = budget_.reserve(need, arenas::Urgency::speculative);
  if (!reservation) return Grant::refused;
  reservation->merge(take_reserved(session, object));
  return admit(session, object, priority, std::move(*reservation));
}

// Creates the next chunk's gate and prepack, then submits its reads: a read that waited for a task's body would wait
// for a busy thread.
void Policy::submit_chunk(SessionState& session, plan::ObjectId id, schedule::LoadToken token, arenas::Allocation block,
                          arenas::Reservation mapped) {
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  ObjectState& object = session.objects[size_t(id)];
  Load& load = loads_[size_t(token)];
  load.session = &session;
  load.object = id;
  load.chunk = object.next_chunk++;
  load.rider = object.rider;
  load.block = std::move(block);
  load.mapped_reservation = std::move(mapped);
  load.mapped = {};
  load.ready = load.opened = load.noop = load.uploading = false;
  load.error.reset();
  load.original = load.effective = object.priority;
  const plan::Chunk& chunk = spec.chunks[load.chunk];
  load.bytes = 0;
  for (const plan::Read& read : chunk.reads) load.bytes += read.length;
  load.reads_pending = int(chunk.reads.size());
  ++object.live_loads;
  count_in_flight(int64_t(load.bytes));
  scheduler_->create_load(token);
  load.first_read = sequence_;
  std::byte* destination = load.block.data();
  if (!load.block && !session.reads_mapped(id)) destination = session.store->writable(id) + chunk.begin;
  submit_reads(session, id, int32_t(load.chunk), token, chunk.reads, destination);
}

// A null destination: the read is mapped.
void Policy::submit_reads(SessionState& session, plan::ObjectId id, int32_t chunk, int32_t token,
                          const std::vector<plan::Read>& reads, std::byte* destination) {
  for (const plan::Read& read : reads) {
    effects_.read({read_id(chunk < 0, token, sequence_++), &session, id, chunk, read,
                   destination ? destination + read.staging_offset : nullptr, session.objects[size_t(id)].priority,
                   plan_position(session, id)});
  }
}

void Policy::promote_reads(bool aux, int32_t token, uint32_t first, size_t count, Priority priority) {
  for (size_t i = 0; i < count; ++i) effects_.promote_read(read_id(aux, token, first + uint32_t(i)), priority);
}

// An object owns one chunk's token and block until it is packed, and takes more while there are many: its next bytes
// are read while its first are packed.
void Policy::top_up_chunks() {
  for (const bool critical : {true, false}) {
    for (const InFlight& item : in_flight_) {
      const ObjectState& object = item.session->objects[size_t(item.object)];
      if ((object.priority == Priority::critical) != critical) continue;
      while (!object.doomed && !object.abandoned &&
             object.next_chunk < item.session->plan->objects[size_t(item.object)].chunks.size()) {
        if (loads_.size() - free_loads_.size() >= chunk_window_ || !add_chunk(item)) return;
      }
    }
  }
}

bool Policy::add_chunk(const InFlight& item) {
  const plan::PreparedObject& spec = item.session->plan->objects[size_t(item.object)];
  if (free_loads_.size() <= reserved_tokens_) return false;
  arenas::Allocation block;
  arenas::Reservation mapped;
  if (spec.chunk_staging_bytes > 0) {
    const bool maps = item.session->reads_mapped(item.object);
    const DomainBytes need =
        maps ? DomainBytes{{Domain::mapped, spec.chunk_staging_bytes}}
             : DomainBytes{{Domain::preparation, BlockArena::rounded_bytes(spec.chunk_staging_bytes)}};
    std::optional<arenas::Reservation> reservation = budget_.reserve(need, arenas::Urgency::speculative);
    if (!reservation) return false;
    if (maps) {
      mapped = std::move(*reservation);
    } else {
      Result<arenas::Allocation> staging = preparation_.allocate(*reservation, spec.chunk_staging_bytes);
      if (!staging.ok()) return false;
      block = std::move(*staging);
    }
  }
  submit_chunk(*item.session, item.object, take(free_loads_), std::move(block), std::move(mapped));
  return true;
}

// Priority inheritance: closed gates and queued reads are re-ordered, an opened prepack that has not started is
// promoted.
void Policy::raise(SessionState& session, plan::ObjectId id, Priority priority) {
  ObjectState& object = session.objects[size_t(id)];
  if (object.leader != plan::kNone) raise(session, object.leader, priority);
  if (object.priority <= priority || !session.options.inheritance) return;
  object.priority = priority;
  ++counters_.promotions;
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  if (object.aux_pending > 0) promote_reads(true, object.token, object.first_read, spec.aux_reads.size(), priority);
  for (size_t i = 0; i < loads_.size(); ++i) {
    Load& load = loads_[i];
    if (load.session != &session || load.object != id || load.rows) continue;
    load.effective = priority;
    if (load.reads_pending > 0) {
      promote_reads(false, int32_t(i), load.first_read, spec.chunks[load.chunk].reads.size(), priority);
    }
    if (load.opened && !load.uploading && priority == Priority::critical)
      scheduler_->promote_load(schedule::LoadToken(i));
  }
}

}  // namespace ompipe::session
