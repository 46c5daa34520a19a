// Work on the device: what objects need on their way there, and segments. Handed over by priority, a few at a time, so
// that what is critical never waits behind much; its end is an event as any other.
#include <algorithm>
#include <utility>

#include "policy.h"

namespace ompipe::session {

using plan::Recipe;

namespace {

void count(PolicyCounters& counters, const std::vector<device::Command>& commands) {
  ++counters.device_batches;
  for (const device::Command& command : commands) {
    if (const auto* upload = std::get_if<device::Upload>(&command)) counters.uploaded_bytes += upload->bytes;
    if (const auto* readback = std::get_if<device::Readback>(&command)) counters.read_back_bytes += readback->bytes;
  }
}

}  // namespace

void Policy::queue_device_work(DeviceWork work) {
  work.id = ++last_device_work_;
  work.queued_ns = now_ns();
  device_work_.push_back(std::move(work));
}

// A chunk that the device packs is uploaded before its block is used again. False: there is nothing to upload.
bool Policy::upload_chunk(schedule::LoadToken token) {
  Load& load = loads_[size_t(token)];
  SessionState& session = *load.session;
  const plan::ObjectId id = load.rider != plan::kNone ? load.rider : load.object;
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  const ObjectState& object = session.objects[size_t(id)];
  if (object.recipe != Recipe::upload_pack || load.noop || load.error || object.doomed) return false;
  load.uploading = true;
  const plan::Chunk& chunk = spec.chunks[load.chunk];
  const std::byte* const from = load.block ? load.block.data() : load.mapped.bytes.data();
  DeviceWork work{.kind = DeviceWork::Kind::chunk, .session = &session, .object = id, .load = token};
  work.commands.emplace_back(
      device::Upload{from, object.sources.at(spec.device_offsets[0] + chunk.begin), chunk.end - chunk.begin});
  queue_device_work(std::move(work));
  return true;
}

// The object's chunks are packed, or uploaded, and their digest is right: it becomes visible when its last batch has
// ended. False: it isn't on the device.
bool Policy::finish_on_device(SessionState& session, plan::ObjectId id) {
  const plan::PreparedObject& spec = session.plan->objects[size_t(id)];
  ObjectState& object = session.objects[size_t(id)];
  if (object.recipe == Recipe::on_cpu) return false;
  const device::Address there = session.store->on_device(id).at();
  DeviceWork work{.kind = DeviceWork::Kind::object, .session = &session, .object = id};
  if (object.recipe == Recipe::pack_upload) {
    work.commands.emplace_back(device::Upload{object.upload.data(), there, spec.bytes});
  } else {
    const auto place = [&](size_t source) {
      return source < spec.sources.size() ? object.sources.at(spec.device_offsets[source]) : device::Address::none;
    };
    for (size_t i = 1; i < spec.sources.size(); ++i) {
      work.commands.emplace_back(device::Upload{object.aux.data() + spec.sources[i].staging_offset, place(i),
                                                session.plan->source_payload(id, i).length});
    }
    work.commands.emplace_back(device::Pack{&spec.layout, place(0), place(1), place(2), there});
  }
  ++object.transfers;
  queue_device_work(std::move(work));
  return true;
}

// The oldest live segment of the invocation may run: on the device it starts now and ends with its batch. False: it has
// run already, on the CPU, or doesn't run any more.
bool Policy::run_on_device(Invocation& invocation) {
  SessionState& session = *invocation.session;
  const plan::SegmentId segment = invocation.live.front().segment;
  if (!session.plan->segments[size_t(segment)].on_device || invocation.error || invocation.suppressed.load())
    return false;
  DeviceWork work{.kind = DeviceWork::Kind::segment, .session = &session, .slot = invocation.slot};
  invocation.work->device_commands(segment, *session.store, work.commands);
  queue_device_work(std::move(work));
  return true;
}

Priority Policy::priority_of(const DeviceWork& work) const {
  return work.kind == DeviceWork::Kind::segment ? Priority::critical
                                                : work.session->objects[size_t(work.object)].priority;
}

// What was given up before the device has it never gets there.
bool Policy::is_given_up(const DeviceWork& work) const {
  return work.kind == DeviceWork::Kind::segment ? slots_[size_t(work.slot)].invocation->error.has_value()
                                                : work.session->objects[size_t(work.object)].doomed;
}

// What was given up is dropped however full the device is: who waits for its end needn't wait for other batches.
void Policy::hand_over_device_work() {
  const auto is_dropped = [&](const DeviceWork& work) { return !work.handed_over && is_given_up(work); };
  for (;;) {
    const auto next = std::find_if(device_work_.begin(), device_work_.end(), is_dropped);
    if (next == device_work_.end()) break;
    const DeviceWork dropped = std::move(*next);
    device_work_.erase(next);
    end_device_work(dropped, std::nullopt);
  }
  const auto before = [&](const DeviceWork& a, const DeviceWork& b) {
    if (a.handed_over != b.handed_over) return b.handed_over;
    return priority_of(a) != priority_of(b) ? priority_of(a) < priority_of(b) : a.id < b.id;
  };
  while (on_device_ < options_.device_batches) {
    const auto next = std::min_element(device_work_.begin(), device_work_.end(), before);
    if (next == device_work_.end() || next->handed_over) return;
    next->handed_over = true;
    ++on_device_;
    count(counters_, next->commands);
    effects_.run_on_device(next->id, std::exchange(next->commands, {}));
  }
}

void Policy::device_done(device::Event event) {
  const auto found = std::find_if(device_work_.begin(), device_work_.end(),
                                  [&](const DeviceWork& work) { return work.id == event.id; });
  OMPIPE_CHECK(found != device_work_.end() && found->handed_over, "an event of the device that nobody waits for");
  const DeviceWork work = std::move(*found);
  device_work_.erase(found);
  --on_device_;
  if (work.kind == DeviceWork::Kind::segment) {
    Invocation& invocation = *slots_[size_t(work.slot)].invocation;
    const auto place = size_t(invocation.live.front().task) % schedule::kSegmentsAhead;
    invocation.times[place] = {
        .start_ns = event.start_ns, .end_ns = event.end_ns, .cpu_ns = event.cpu_ns, .lane = kDeviceLane};
  } else {
    note_transfer(work, event);
  }
  end_device_work(work, event.error);
}

// Also of work that was dropped, with no error of its own.
void Policy::end_device_work(const DeviceWork& work, const std::optional<Error>& error) {
  switch (work.kind) {
    case DeviceWork::Kind::chunk: {
      Load& load = loads_[size_t(work.load)];
      load.uploading = false;
      if (error) device_failed(*work.session, work.object, *error, "upload ");
      chunk_done(work.load);
      break;
    }
    case DeviceWork::Kind::object: {
      ObjectState& object = work.session->objects[size_t(work.object)];
      --object.transfers;
      if (!error) {
        // Nothing of it is on its way beside this batch, so nothing could have doomed it, nor dropped the batch.
        OMPIPE_CHECK(!object.doomed, "an object that was given up is about to become visible");
        make_visible(*work.session, work.object, now_ns());
        break;
      }
      const char* const task = object.recipe == Recipe::upload_pack ? "device pack " : "upload ";
      device_failed(*work.session, work.object, *error, task);
      settle(*work.session, work.object);
      break;
    }
    case DeviceWork::Kind::segment: {
      Invocation& invocation = *slots_[size_t(work.slot)].invocation;
      if (error) {
        invocation.body_errors[size_t(invocation.live.front().task) % schedule::kSegmentsAhead] = error;
        invocation.suppressed.store(true);
      }
      end_segment(invocation);
      break;
    }
  }
}

// What the device was to pack, and lost, is packed by the CPU, once nothing of the first attempt is on its way any
// more.
void Policy::device_failed(SessionState& session, plan::ObjectId id, const Error& error, const char* task) {
  ObjectState& object = session.objects[size_t(id)];
  if (object.dormant.left_bytes(arenas::Domain::preparation) == 0 || object.doomed)
    return object_failed(session, id, error, task);
  object.falls_back = true;
  doom(session, id);
  withdraw_reads(session, id);
}

// The same admission, by the dormant recipe: its publish gate stays closed, who waits for it goes on waiting.
void Policy::fall_back(SessionState& session, plan::ObjectId id) {
  ObjectState& object = session.objects[size_t(id)];
  object.doomed = object.falls_back = false;
  ++counters_.fallbacks;
  object.recipe = Recipe::pack_upload;
  object.sources.reset();
  Result<arenas::Allocation> packed = preparation_.allocate(object.dormant, session.plan->objects[size_t(id)].bytes);
  OMPIPE_CHECK(packed.ok(), "the system has no memory for bytes within the budget");
  object.upload = std::move(*packed);
  object.next_chunk = object.packed = 0;
  session.store->again(id);
  const schedule::LoadToken token = std::exchange(object.spare, -1);
  Load& load = loads_[size_t(token)];
  submit_first(session, id, token, std::move(load.block), std::move(load.mapped_reservation));
}

void Policy::note_transfer(const DeviceWork& work, const device::Event& event) {
  const ObjectState& object = work.session->objects[size_t(work.object)];
  const plan::PreparedObject& spec = work.session->plan->objects[size_t(work.object)];
  TaskEvent task = object_event(TaskKind::transfer, *work.session, work.object);
  task.resource = ResourceClass::device;
  task.original = object.original;
  task.effective = object.priority;
  task.source = ByteSource::portable;
  task.lane = kDeviceLane;
  if (work.kind == DeviceWork::Kind::chunk) task.chunk = int32_t(loads_[size_t(work.load)].chunk);
  task.bytes = work.kind == DeviceWork::Kind::chunk ? loads_[size_t(work.load)].bytes : spec.bytes;
  task.queued_ns = work.queued_ns;
  task.start_ns = event.start_ns;
  task.end_ns = event.end_ns;
  task.cpu_ns = event.cpu_ns;
  effects_.observer().on_task(task);
}

}  // namespace ompipe::session
