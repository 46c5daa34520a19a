#include "policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace ompipe::session {

using arenas::BlockArena;
using arenas::Domain;
using arenas::DomainBytes;

namespace {

// A gang of the usual four objects and a bundle.
constexpr size_t kReservedTokens = 5;

uint64_t total_of(const DomainBytes& bytes) {
  uint64_t total = 0;
  for (Domain domain : arenas::kDomains) {
    if (arenas::in_global(domain)) total += bytes[domain];
  }
  return total;
}

}  // namespace

SessionState::SessionState(std::shared_ptr<const plan::PreparedExecutionPlan> the_plan,
                           const SessionOptions& the_options, std::unique_ptr<store::PreparedStore> the_store)
    : plan(std::move(the_plan)),
      options(the_options),
      store(std::move(the_store)),
      objects(plan->objects.size()),
      evictable(plan->objects.size()),
      evictable_there(plan->uses_device() ? plan->objects.size() : 0),
      window(
          plan::SegmentId(std::min(plan->segments.size(), size_t(options.look_ahead.segments.value_or(INT32_MAX))))) {
  for (const plan::Segment& segment : plan->segments) {
    DomainBytes gang;
    for (plan::ObjectId object : segment.requirements) {
      const DomainBytes need = need_of(object);
      for (Domain domain : arenas::kDomains) gang[domain] += need[domain];
    }
    for (Domain domain : arenas::kDomains) largest_gang[domain] = std::max(largest_gang[domain], gang[domain]);
    largest_gang_total = std::max(largest_gang_total, total_of(gang));
  }
}

// Mapped reads serve packing alone: what is used in its source form is read to its place, and small pieces are not
// worth a mapping.
bool SessionState::reads_mapped(plan::ObjectId object) const {
  const plan::PreparedObject& spec = plan->objects[size_t(object)];
  return options.read == ReadMode::mapped && spec.kind == plan::ObjectKind::packed_matmul &&
         plan->main_payload(object).encoding == model::Encoding::raw;
}

DomainBytes SessionState::need_of(plan::ObjectId object) const {
  const plan::PreparedObject& spec = plan->objects[size_t(object)];
  DomainBytes need = need_beside_reads(object);
  if (spec.aux_staging_bytes > 0) need[Domain::preparation] += BlockArena::rounded_bytes(spec.aux_staging_bytes);
  if (spec.chunk_staging_bytes > 0) {
    if (reads_mapped(object)) {
      need[Domain::mapped] = spec.chunk_staging_bytes;
    } else {
      need[Domain::preparation] += BlockArena::rounded_bytes(spec.chunk_staging_bytes);
    }
  }
  return need;
}

DomainBytes SessionState::need_beside_reads(plan::ObjectId object) const {
  const plan::PreparedObject& spec = plan->objects[size_t(object)];
  DomainBytes need = resident_of(object);
  if (spec.recipe == plan::Recipe::pack_upload) need[Domain::preparation] += BlockArena::rounded_bytes(spec.bytes);
  if (spec.recipe == plan::Recipe::upload_pack)
    need[Domain::device] += device::Arena::rounded_bytes(spec.device_source_bytes);
  return sum_of(need, dormant_of(object));
}

DomainBytes SessionState::dormant_of(plan::ObjectId object) const {
  const plan::PreparedObject& spec = plan->objects[size_t(object)];
  if (spec.recipe != plan::Recipe::upload_pack) return {};
  return {{Domain::preparation, BlockArena::rounded_bytes(spec.bytes)}};
}

DomainBytes SessionState::resident_of(plan::ObjectId object) const {
  const uint64_t bytes = plan->objects[size_t(object)].bytes;
  if (on_device(object)) return {{Domain::device, device::Arena::rounded_bytes(bytes)}};
  return {{Domain::prepared, arenas::PreparedArena::rounded_bytes(bytes)}};
}

Policy::Policy(const PolicyOptions& options, arenas::Budget& budget, BlockArena& preparation, BlockArena& execution,
               BlockArena& io, Effects& effects, device::Arena* device)
    : options_(options),
      budget_(budget),
      preparation_(preparation),
      execution_(execution),
      io_(io),
      effects_(effects),
      device_(device),
      chunk_window_(size_t(options.threads + 2 * options.io_threads + 2)),
      reserved_tokens_(
          std::min<size_t>(kReservedTokens, size_t(std::min(options.load_tokens, options.publish_tokens)) / 2)),
      loads_(size_t(options.load_tokens)),
      slots_(schedule::kMaxSlots),
      publishes_(size_t(options.publish_tokens)) {
  for (int token = options.load_tokens - 1; token >= 0; --token) free_loads_.push_back(token);
  for (int token = options.publish_tokens - 1; token >= 0; --token) free_publishes_.push_back(token);
  for (int token = schedule::kMaxSlots - 1; token >= 0; --token) free_slots_.push_back(token);
  ready_.reserve(size_t(options.load_tokens));
  in_flight_.reserve(size_t(options.publish_tokens));
}

Policy::~Policy() = default;

Status Policy::bind(SessionState& session) {
  if (Status status = fits(budget_.limits(), session, {}); !status.ok()) {
    Error error = status.error();
    error.phase = "open";
    error.reason += "; what a run executes in and puts out comes on top";
    return error;
  }
  session.instance = ++last_instance_;
  sessions_.push_back(&session);
  arm(session);
  return ok_status();
}

void Policy::close(SessionState& session, Completion& done) { session.closing = &done; }

void Policy::read_done(uint64_t id, std::optional<Error> error) {
  const int32_t token = token_of(id);
  if (is_aux(id)) {
    const PublishGate& gate = publishes_[size_t(token)];
    aux_arrived(*gate.session, gate.object, error);
    return;
  }
  Load& load = loads_[size_t(token)];
  --load.reads_pending;
  if (load.rows) {
    if (error && !load.rows->error) {
      load.rows->error = *error;
      withdraw_rows(*load.rows);
    }
    make_ready(token);
    return;
  }
  arrived(*load.session, load.object, error);
  const ObjectState& object = load.session->objects[size_t(load.object)];
  if (load.reads_pending == 0 && (object.aux_pending == 0 || object.doomed)) make_ready(token);
}

void Policy::aux_arrived(SessionState& session, plan::ObjectId id, const std::optional<Error>& error) {
  ObjectState& object = session.objects[size_t(id)];
  --object.aux_pending;
  arrived(session, id, error);
  for (size_t i = 0; object.aux_pending == 0 && i < loads_.size(); ++i) {
    const Load& load = loads_[i];
    if (load.session == &session && load.object == id && !load.rows && load.reads_pending == 0)
      make_ready(schedule::LoadToken(i));
  }
  settle(session, id);
}

// Bytes of an object that nobody wants any more are thrown away.
void Policy::arrived(SessionState& session, plan::ObjectId id, const std::optional<Error>& error) {
  ObjectState& object = session.objects[size_t(id)];
  if (error) {
    object_failed(session, id, *error);
  } else if (object.abandoned) {
    doom(session, id);
    withdraw_reads(session, id);
  }
}

Policy::ReadTarget Policy::read_target(uint64_t read_id) const {
  const auto token = size_t(token_of(read_id));
  if (is_aux(read_id)) return {publishes_[token].session, publishes_[token].object, -1};
  return {loads_[token].session, loads_[token].object, int32_t(loads_[token].chunk)};
}

int32_t Policy::take(std::vector<int32_t>& tokens) {
  const int32_t token = tokens.back();
  tokens.pop_back();
  return token;
}

TaskEvent Policy::object_event(TaskKind kind, const SessionState& session, plan::ObjectId id) {
  return {.task = ++last_task_,
          .kind = kind,
          .resource = ResourceClass::inline_,
          .executor = effects_.executor(),
          .lane = kCoordinatorLane,
          .object = id,
          .generation = session.store->generation(id),
          .bytes_in_flight = bytes_in_flight_,
          .name = session.plan->objects[size_t(id)].name};
}

void Policy::pump() {
  bool dropped = false;
  do {
    for (SessionState* session : sessions_) session->gate_held = false;
    keep_to_limits();
    start_invocations();
    if (create_segments() || (withdraw_preparations() && create_segments())) {
      serve_preparations();
      look_ahead();
    } else {
      make_way();
    }
    top_up_rows();
    top_up_chunks();
    open_gates();
    const size_t device_work = device_work_.size();
    hand_over_device_work();
    dropped = device_work_.size() < device_work;
    // What is dropped there, or a preparation, gives back others may wait for.
  } while (finish_preparations() || dropped || look_again());
  close_idle_sessions();
  finish_releases();
  arm_gates();
}

uint64_t Policy::plan_position(const SessionState& session, plan::ObjectId object) const {
  return session.clock + uint64_t(session.plan->objects[size_t(object)].uses.front());
}

void Policy::count_in_flight(int64_t bytes) {
  bytes_in_flight_ += uint64_t(bytes);
  counters_.peak_bytes_in_flight = std::max(counters_.peak_bytes_in_flight, bytes_in_flight_);
}

Status Policy::fits(const arenas::BudgetLimits& limits, const SessionState& session, const DomainBytes& memory) {
  const uint64_t execution_bytes = memory[Domain::execution], output_bytes = memory[Domain::io];
  const uint64_t device_bytes = memory[Domain::device];
  const DomainBytes need = sum_of(session.largest_gang, memory);
  const std::string there =
      session.plan->uses_device()
          ? fmt::format(", device {}; activations there {}", session.largest_gang[Domain::device], device_bytes)
          : "";
  auto refuse = [&](const char* what, uint64_t needed, uint64_t limit) {
    return Status(
        Error{ErrorKind::cannot_fit, "admission", session.plan->model->metadata().path,
              fmt::format(
                  "{} bytes of {} are needed at least (largest gang: prepared {}, staging {}{}; execution {}; outputs "
                  "{}), the limit is {}",
                  needed, what, session.largest_gang[Domain::prepared], session.largest_gang[Domain::preparation],
                  there, execution_bytes, output_bytes, limit)});
  };
  for (Domain domain : arenas::kDomains) {
    if (need[domain] > limits.domain_bytes[domain])
      return refuse(arenas::domain_name(domain), need[domain], limits.domain_bytes[domain]);
  }
  const uint64_t total = session.largest_gang_total + execution_bytes + output_bytes;
  if (total > limits.global_bytes) return refuse("all domains together", total, limits.global_bytes);
  return ok_status();
}

std::string Policy::audit() const {
  std::string text;
  auto expect = [&](const char* what, size_t found, size_t wanted) {
    if (found != wanted) text += fmt::format("{}: {} instead of {}; ", what, found, wanted);
  };
  expect("free load tokens", free_loads_.size(), loads_.size());
  expect("free publish tokens", free_publishes_.size(), publishes_.size());
  expect("free slots", free_slots_.size(), slots_.size());
  expect("live invocations", live_.size() + pending_.size(), 0);
  expect("preparations", preparations_.size(), 0);
  expect("requests for bytes", releases_.size(), 0);
  expect("objects that leave", leaving_.size(), 0);
  expect("bytes in flight", bytes_in_flight_, 0);
  expect("batches on the device", device_work_.size(), 0);
  expect("activation bytes on the device", device_block_bytes_, 0);
  expect("busy hot slots", hot_.slots.busy(), 0);
  if (sessions_.empty()) expect("hot slots", size_t(hot_.slots.filled()), 0);
  expect("fetches of rows", orphan_rows_.size(), 0);
  for (const SessionState* session : sessions_) {
    for (const ObjectState& object : session->objects) expect("pins", size_t(object.pins), 0);
  }
  return text;
}

}  // namespace ompipe::session
