// The recipe `rows`: instead of a whole table, the digest slices that hold the rows an invocation asks for.
#include <algorithm>
#include <utility>

#include "policy.h"

namespace ompipe::session {

using arenas::Domain;
using store::Residency;

// The fetch to use for an object that the invocation's next segment needs: if the table is not resident, if fewer bytes
// have to be read this way than are still missing of the whole (so the gang gets no larger), and if the staging limit
// has room for all tables' slices beside the largest gang.
RowFetch* Policy::rows_for(Invocation& invocation, plan::ObjectId id) {
  const SessionState& session = *invocation.session;
  RowFetch* found = nullptr;
  uint64_t staging_bytes = session.largest_gang[Domain::preparation];
  for (RowFetch& fetch : invocation.rows) {
    if (fetch.segment != invocation.counter.next()) continue;
    staging_bytes += fetch.staging_bytes();
    if (fetch.object == id) found = &fetch;
  }
  const Residency state = session.store->state(id);
  if (!found || state == Residency::resident || staging_bytes > budget_.limits().domain_bytes[Domain::preparation])
    return nullptr;
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  uint64_t missing = spec.source_bytes;
  if (state == Residency::preparing) missing -= session.objects[size_t(id)].packed * spec.chunks.front().end;
  return found->staging_bytes() < missing ? found : nullptr;
}

// The reservation holds the slices' bytes; a publish token and one load token were looked for before.
void Policy::start_rows(Invocation& invocation, RowFetch& fetch, arenas::Reservation reservation) {
  SessionState& session = *invocation.session;
  for (const plan::Source& source : session.plan->objects[size_t(fetch.object)].sources) {
    Result<arenas::Window> window = arenas::Window::open(session.plan->model->payload(source.payload).length);
    OMPIPE_CHECK(window.ok(), "the system has no addresses for a table");
    fetch.windows.push_back(std::move(*window));
  }
  fetch.invocation = &invocation;
  fetch.reservation = std::move(reservation);
  fetch.next = fetch.done = 0;
  fetch.error.reset();
  fetch.token = take_publish(nullptr, -1);
  ++session.in_flight;
  submit_slice(session, fetch, take(free_loads_));
}

void Policy::submit_slice(SessionState& session, RowFetch& fetch, schedule::LoadToken token) {
  const RowFetch::Slice slice = fetch.slices[fetch.next];
  const model::Payload& payload = session.plan->source_payload(fetch.object, slice.source);
  const uint64_t begin = slice.index * io::kSliceBytes;
  const plan::Read read{payload.file, payload.offset + begin, std::min(io::kSliceBytes, payload.length - begin), 0};
  Load& load = loads_[size_t(token)];
  load = Load{};
  load.session = &session;
  load.object = fetch.object;
  load.chunk = uint32_t(slice.index);
  load.rows = &fetch;
  load.slice = fetch.next++;
  load.original = load.effective = Priority::critical;
  load.bytes = read.length;
  load.reads_pending = 1;
  load.first_read = sequence_;
  ++fetch.live_loads;
  count_in_flight(int64_t(load.bytes));
  scheduler_->create_load(token);
  effects_.read({read_id(false, token, sequence_++), &session, fetch.object, int32_t(slice.index), read,
                 fetch.windows[slice.source].data() + begin, Priority::critical, plan_position(session, fetch.object)});
}

// Its bytes are reserved already: only tokens bound how many slices are read at once.
void Policy::top_up_rows() {
  for (const std::unique_ptr<Invocation>& invocation : live_) {
    for (RowFetch& fetch : invocation->rows) {
      while (fetch.token >= 0 && fetch.invocation && !fetch.error && fetch.next < fetch.slices.size() &&
             loads_.size() - free_loads_.size() < chunk_window_ && free_loads_.size() > reserved_tokens_) {
        submit_slice(*invocation->session, fetch, take(free_loads_));
      }
    }
  }
}

void Policy::slice_packed(schedule::LoadToken token) {
  Load& load = loads_[size_t(token)];
  RowFetch& fetch = *load.rows;
  SessionState& session = *load.session;
  --fetch.live_loads;
  count_in_flight(-int64_t(load.bytes));
  if (load.error && !fetch.error) {
    fetch.error = load.error;
    withdraw_rows(fetch);
  }
  if (!load.noop) {
    --open_;
    ++fetch.done;
  }
  if (!fetch.error && fetch.invocation && fetch.next < fetch.slices.size()) {
    submit_slice(session, fetch, token);
  } else {
    free_load(token);
  }
  settle_rows(session, fetch);
}

// Opens the gate once every slice is there and right, or once one that was given up has nothing on its way any more.
// The segment that waits for rows that failed is taken back before: it may begin as soon as the gate is open. The fetch
// may end with its invocation.
void Policy::settle_rows(SessionState& session, RowFetch& fetch) {
  const bool given_up = fetch.error || !fetch.invocation;
  if (fetch.live_loads > 0 || (!given_up && fetch.done < fetch.slices.size())) return;
  const schedule::PublishToken token = fetch.token;
  Invocation* const failed = fetch.error ? fetch.invocation : nullptr;
  if (failed) fail(*failed, *fetch.error, "rows of " + session.plan->objects[size_t(fetch.object)].name);
  open_publish(token);
  --session.in_flight;
  if (failed) {
    if (failed->live.empty()) finish(*failed);
  } else if (!fetch.invocation) {
    end_rows(fetch);
    std::erase_if(orphan_rows_, [](const std::vector<RowFetch>& rows) {
      return std::none_of(rows.begin(), rows.end(), [](const RowFetch& item) { return item.token >= 0; });
    });
  }
}

void Policy::withdraw_rows(const RowFetch& fetch) {
  for (size_t i = 0; i < loads_.size(); ++i) {
    if (loads_[i].rows == &fetch && !loads_[i].opened) withdraw_load(schedule::LoadToken(i), 1);
  }
}

// The segment has been taken back: nothing more is read for it. Window and bytes stay until what is on its way has
// arrived.
void Policy::abandon_rows(Invocation& invocation, plan::SegmentId segment) {
  for (RowFetch& fetch : invocation.rows) {
    if (fetch.segment != segment || fetch.token < 0) continue;
    fetch.invocation = nullptr;
    if (fetch.live_loads == 0) {
      end_rows(fetch);
    } else {
      withdraw_rows(fetch);
    }
  }
}

// Window, bytes and token go back.
void Policy::end_rows(RowFetch& fetch) {
  fetch.windows.clear();
  fetch.reservation.release();
  release_publish(std::exchange(fetch.token, -1));
}

}  // namespace ompipe::session
