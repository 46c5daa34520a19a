#include "runtime_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "frame_work.h"
#include "ompipe/io/meter.h"
#include "ompipe/io/posix_device.h"
#include "ompipe/schedule/environment.h"
#include "ompipe/schedule/slice.h"
#include "ompipe/store/prepare_chunk.h"
#include "option_parts.h"

namespace ompipe::session {

using arenas::Domain;
using schedule::Message;

namespace {

constexpr uint64_t kDiscardInlineBytes = 1u << 20;

class SilentObserver : public Observer {
 public:
  void on_task(const TaskEvent&) noexcept override {}
  void on_milestone(Milestone, uint64_t) noexcept override {}
};

io::Priority io_priority(Priority priority) {
  switch (priority) {
    case Priority::critical:
      return io::Priority::critical;
    case Priority::prefetch:
      return io::Priority::prefetch;
    case Priority::background:
      return io::Priority::background;
  }
  return io::Priority::background;
}

io::ReadMode io_mode(ReadMode mode) {
  switch (mode) {
    case ReadMode::buffered:
      return io::ReadMode::buffered;
    case ReadMode::direct:
      return io::ReadMode::direct;
    case ReadMode::mapped:
      return io::ReadMode::mapped;
  }
  return io::ReadMode::buffered;
}

int32_t next_executor() {
  static std::atomic<int32_t> last{0};
  return ++last;
}

}  // namespace

uint64_t now_ns() { return uint64_t(io::monotonic_ns()); }
uint64_t thread_cpu_ns() { return uint64_t(io::thread_cpu_ns()); }

Result<std::unique_ptr<RuntimeCore>> RuntimeCore::open(const RuntimeOptions& asked) {
  RuntimeOptions options = asked;
  Result<arenas::Topology> topology = arenas::Topology::native();
  if (!topology.ok()) return topology.error();
  if (options.threads == 0) options.threads = int(topology->cores().size());
  options.limits.device_bytes = device_limit(options.limits, options.backend);
  Result<arenas::PlacementSpec> spec = arenas::PlacementSpec::parse(options.placement);
  if (!spec.ok()) return spec.error();
  Result<arenas::Placement> placement = arenas::place_threads(*topology, *spec, options.threads, options.io_threads);
  if (!placement.ok()) return placement.error();
  std::unique_ptr<RuntimeCore> core(new RuntimeCore(options, std::move(*topology), std::move(*placement)));
  if (Status status = core->start(); !status.ok()) return status.error();
  return Result<std::unique_ptr<RuntimeCore>>(std::move(core));
}

RuntimeCore::RuntimeCore(const RuntimeOptions& options, arenas::Topology topology, arenas::Placement placement)
    : options_(options),
      topology_(std::move(topology)),
      placement_(std::move(placement)),
      executor_(next_executor()),
      silent_(std::make_unique<SilentObserver>()),
      observer_(options.observer ? options.observer : silent_.get()),
      own_device_(options.device ? nullptr : std::make_unique<io::PosixDevice>()),
      device_(options.device ? options.device : own_device_.get()),
      budget_(budget_limits(options.limits)),
      preparation_(budget_, block_arena(Domain::preparation, options.limits, binding(Domain::preparation))),
      execution_(budget_, block_arena(Domain::execution, options.limits, binding(Domain::execution))),
      io_arena_(budget_, block_arena(Domain::io, options.limits, binding(Domain::io))),
      device_arena_(budget_, options.backend),
      retained_limit_bytes_(options.limits.retained_bytes),
      policy_(policy_options(options), budget_, preparation_, execution_, io_arena_, *this, &device_arena_),
      hot_runs_(policy_.hot(), *this) {}

// The scheduler named, or the fallback if the environment forbids that one; then the I/O service, which reports to it.
Status RuntimeCore::start() {
  schedule::SchedulerOptions scheduling{
      .threads = options_.threads, .io_threads = options_.io_threads, .seed = options_.seed};
  Result<std::unique_ptr<schedule::Scheduler>> opened = schedule::open_scheduler(options_.scheduler, scheduling, *this);
  if (!opened.ok() && opened.error().kind == ErrorKind::environment && !options_.fallback.empty()) {
    fallback_used_ = true;
    opened = schedule::open_scheduler(options_.fallback, scheduling, *this);
  }
  if (!opened.ok()) return opened.error();
  scheduler_ = std::move(*opened);
  told_ = scheduler_.get();
  policy_.set_scheduler(*scheduler_);
  inline_reads_ = scheduler_->capabilities().inline_reads;
  io_ = std::make_unique<io::IoService>(*device_, *this,
                                        io::IoOptions{.threads = inline_reads_ ? 0u : uint32_t(options_.io_threads),
                                                      .inflight_bytes = options_.limits.io_inflight_bytes,
                                                      .on_thread_start = [this](uint32_t thread) {
                                                        schedule::ask_for_short_slice();
                                                        bind_thread(placement_.io[thread]);
                                                      }});
  if (!io_->status().ok()) return io_->status();
  reads_open_.store(true, std::memory_order_release);
  if (options_.backend) {
    if (Status status = options_.backend->open(*this); !status.ok()) return status;
    backend_open_ = true;
  }
  if (inline_reads_) return ok_status();
  discarder_ = std::make_unique<Discarder>();
  return discarder_->start();
}

RuntimeCore::~RuntimeCore() {
  if (io_) io_->close();
  if (backend_open_) options_.backend->close();
  discarder_.reset();
  scheduler_.reset();
}

void RuntimeCore::submit(std::unique_ptr<Invocation> invocation) {
  scheduler_->post({.kind = run, .payload = invocation.release()});
}

void RuntimeCore::submit(std::unique_ptr<Preparation> wanted) {
  scheduler_->post({.kind = preparation, .payload = wanted.release()});
}

void RuntimeCore::cancel(CompletionRef handle) {
  if (hot_runs_.cancel(*handle)) return;
  scheduler_->post({.kind = cancellation, .payload = std::make_unique<CompletionRef>(std::move(handle)).release()});
}

void RuntimeCore::call(std::function<void()> work) {
  std::promise<void> done;
  std::function<void()> wrapped = [&] {
    work();
    done.set_value();
  };
  scheduler_->post({.kind = function, .payload = &wrapped});
  done.get_future().wait();
}

void RuntimeCore::on_message(const Message& message) {
  switch (message.kind) {
    case Message::prepacked:
      policy_.prepacked(message.id);
      break;
    case Message::segment_done:
      policy_.segment_done(message.id);
      break;
    case Message::room_for_speculation:
      break;  // the pump that follows opens what was held back
    case run:
      policy_.submit(std::unique_ptr<Invocation>(static_cast<Invocation*>(message.payload)));
      break;
    case preparation:
      policy_.prepare(std::unique_ptr<Preparation>(static_cast<Preparation*>(message.payload)));
      break;
    case cancellation: {
      const std::unique_ptr<CompletionRef> handle(static_cast<CompletionRef*>(message.payload));
      policy_.cancel(**handle);
      break;
    }
    case read_finished:
      read_finished_message(std::unique_ptr<io::Completion>(static_cast<io::Completion*>(message.payload)));
      break;
    case discard_finished:
      policy_.discarded(*static_cast<SessionState*>(message.payload), message.id);
      break;
    case device_ended: {
      const std::unique_ptr<device::Event> event(static_cast<device::Event*>(message.payload));
      policy_.device_done(std::move(*event));
      break;
    }
    case released:
      break;  // the pump that follows looks again
    case function:
      (*static_cast<std::function<void()>*>(message.payload))();
      break;
  }
}

void RuntimeCore::prepack(schedule::LoadToken token, schedule::Worker& worker) noexcept {
  Load& load = policy_.load(token);
  if (load.noop) return;
  if (load.rows) return check_slice(load, worker);
  SessionState& session = *load.session;
  store::ChunkJob job;
  job.plan = session.plan.get();
  job.object = &session.plan->objects[size_t(load.object)];
  job.chunk = load.chunk;
  // A mapping is read only; what has to be decoded is never mapped.
  job.staging = load.block ? load.block.data() : const_cast<std::byte*>(load.mapped.bytes.data());
  job.aux = session.objects[size_t(load.object)].aux.data();
  job.prepared = session.store->writable(load.object);
  if (job.object->recipe != plan::Recipe::on_cpu) job.prepared = session.objects[size_t(load.object)].upload.data();
  job.hashes = session.options.verify == Verify::never ? nullptr : &session.store->hashes(load.object);
  job.scale_form = &session.store->scale_form(load.object);
  const BodyClock clock(worker);
  if (const Status status = store::prepare_chunk(job); !status.ok()) load.error = status.error();
  if (load.rider != plan::kNone && !load.error) prepack_rider(load, job);
  load.times = clock.stop();
}

// The same bytes once more, already hashed, for the device.
void RuntimeCore::prepack_rider(Load& load, store::ChunkJob job) {
  SessionState& session = *load.session;
  job.object = &session.plan->objects[size_t(load.rider)];
  job.prepared = session.objects[size_t(load.rider)].upload.data();
  job.hashes = nullptr;
  job.scale_form = nullptr;
  if (!job.prepared) return;  // it is packed there
  if (const Status status = store::prepare_chunk(job); !status.ok()) load.error = status.error();
}

// A slice of a table that was read for its rows: used where it lies, once its hash is right.
void RuntimeCore::check_slice(Load& load, schedule::Worker& worker) {
  const RowFetch& fetch = *load.rows;
  const BodyClock clock(worker);
  const RowFetch::Slice& slice = fetch.slices[load.slice];
  if (slice.hash) {
    const uint64_t begin = slice.index * io::kSliceBytes;
    const io::Hash128 found = io::slice_hash({fetch.windows[slice.source].data() + begin, load.bytes});
    if (!(found == *slice.hash)) {
      const plan::PreparedExecutionPlan& plan = *load.session->plan;
      const model::Payload& payload = plan.source_payload(load.object, slice.source);
      load.error = Error{.kind = ErrorKind::bad_model,
                         .phase = "digest",
                         .subject = payload.name,
                         .reason = fmt::format("slice {}: expected {}, found {}", slice.index,
                                               io::format_hash(*slice.hash), io::format_hash(found)),
                         .file = plan.model->files()[size_t(payload.file)].path,
                         .offset = payload.offset + begin,
                         .length = load.bytes};
    }
  }
  load.times = clock.stop();
}

void RuntimeCore::segment(schedule::SlotToken slot, schedule::Worker& worker) noexcept {
  Invocation& invocation = policy_.invocation(slot);
  const size_t place = invocation.next_to_run++ % schedule::kSegmentsAhead;
  const plan::SegmentId segment = invocation.segments[place];
  BodyTimes& times = invocation.times[place];
  times = {};
  if (invocation.suppressed.load() || invocation.session->plan->segments[size_t(segment)].on_device) return;
  const BodyClock clock(worker);
  auto& work = static_cast<FrameWork&>(*invocation.work);
  const Status status =
      work.run_segment(segment, *invocation.session->store, invocation.rows, worker, scheduler_->threads());
  times = clock.stop();
  invocation.chosen[place] = work.chosen();
  if (status.ok()) return;
  invocation.body_errors[place] = status.error();
  invocation.suppressed.store(true);
}

void RuntimeCore::thread_started(schedule::ThreadRole role, int index) {
  bind_thread(role == schedule::ThreadRole::coordinator ? placement_.coordinator : placement_.compute[size_t(index)]);
}

// A thread that can't be bound works where it is; the report says so.
void RuntimeCore::bind_thread(const arenas::ThreadPlace& place) {
  const arenas::BindOutcome outcome = arenas::bind_current_thread(topology_, place);
  if (outcome.applied) return;
  MutexLock lock(unbound_mutex_);
  unbound_.push_back(place.thread + ": " + outcome.reason);
}

void RuntimeCore::read(const ReadOrder& order) {
  io::ReadRequest request;
  request.id = order.id;
  request.file = order.session->plan->model->files()[size_t(order.read.file)].handle;
  request.offset = order.read.offset;
  request.length = order.read.length;
  const io::ReadMode mode = io_mode(order.session->options.read);
  if (order.destination) {
    request.destination = {order.destination, order.read.length};
    request.mode = mode == io::ReadMode::mapped ? io::ReadMode::buffered : mode;
  } else {
    request.mode = mode;
  }
  request.priority = io_priority(order.priority);
  request.plan_position = order.plan_position;
  const io::SubmitResult result = io_->submit(std::move(request));
  OMPIPE_CHECK(result == io::SubmitResult::accepted,
               "the load tokens bound the reads in flight below the I/O service's capacity");
}

void RuntimeCore::promote_read(uint64_t id, Priority priority) { io_->promote(id, io_priority(priority)); }

bool RuntimeCore::withdraw_read(uint64_t id) { return io_->withdraw(id); }

bool RuntimeCore::discard(SessionState& session, plan::ObjectId object, arenas::Allocation allocation) {
  if (inline_reads_ || allocation.bytes() <= kDiscardInlineBytes) {
    allocation.reset();
    return true;
  }
  discarder_->discard({&session, object}, std::move(allocation), [this, &session, object] {
    scheduler_->post({.kind = discard_finished, .id = object, .payload = &session});
  });
  return false;
}

arenas::Allocation RuntimeCore::keep(SessionState& session, plan::ObjectId object) {
  return discarder_->keep({&session, object});
}

void RuntimeCore::run_on_device(uint64_t id, std::vector<device::Command> commands) {
  const bool taken = options_.backend->submit({id, std::move(commands)});
  OMPIPE_CHECK(taken, "the policy keeps to the bound of the backend's queue");
}

void RuntimeCore::ended(device::Event event) noexcept {
  scheduler_->post({.kind = device_ended, .payload = std::make_unique<device::Event>(std::move(event)).release()});
}

void RuntimeCore::complete(io::Completion completion) noexcept {
  scheduler_->post(
      {.kind = read_finished, .payload = std::make_unique<io::Completion>(std::move(completion)).release()});
}

void RuntimeCore::read_finished_message(std::unique_ptr<io::Completion> completion) {
  if (completion->status == io::ReadStatus::cancelled) return;  // the policy withdrew it
  const Policy::ReadTarget target = policy_.read_target(completion->id);
  const plan::PreparedObject& object = target.session->plan->objects[size_t(target.object)];
  const ObjectState& state = target.session->objects[size_t(target.object)];
  observer_->on_milestone(Milestone::first_read, uint64_t(completion->start_ns));
  TaskEvent event = policy_.object_event(TaskKind::read, *target.session, target.object);
  event.resource = ResourceClass::io;
  event.original = state.original;
  event.effective = state.priority;
  event.source = ByteSource::portable;
  event.lane = kIoLane + int32_t(completion->thread);
  event.chunk = target.chunk;
  event.bytes = completion->bytes;
  event.queued_ns = event.start_ns = uint64_t(completion->start_ns);
  event.end_ns = uint64_t(completion->end_ns);
  observer_->on_task(event);
  portable_read_bytes_ += completion->bytes;
  if (!Policy::is_aux(completion->id))
    policy_.load(Policy::token_of(completion->id)).mapped = std::move(completion->mapped);
  std::optional<Error> error;
  if (completion->status == io::ReadStatus::failed) {
    error = *completion->error;
    error->subject = object.name;
  }
  policy_.read_done(completion->id, std::move(error));
}

RuntimeFigures RuntimeCore::figures() {
  RuntimeFigures figures;
  const schedule::Capabilities capabilities = scheduler_->capabilities();
  const schedule::Counters counters = scheduler_->counters();
  figures.scheduler = capabilities.name;
  figures.scheduling_slice = scheduler_->scheduling_slice();
  figures.openmp_runtime = schedule::openmp_runtime();
  figures.fallback_used = fallback_used_;
  figures.threads = scheduler_->threads();
  figures.io_threads = inline_reads_ ? 0 : options_.io_threads;
  figures.executor = executor_;
  figures.openmp_environment = schedule::openmp_environment();
  figures.placement = placement_.spec.text();
  {
    MutexLock lock(unbound_mutex_);
    figures.unbound = unbound_;
  }
  const arenas::BudgetUsage usage = budget_.usage();
  for (Domain domain : arenas::kDomains) {
    const arenas::DomainUsage& line = usage[domain];
    figures.arenas[arenas::domain_name(domain)] = {line.limit_bytes, line.live_bytes, line.peak_bytes,
                                                   line.retained_bytes};
  }
  figures.global_peak_bytes = usage.global_peak_bytes;
  const io::DeviceCounts device = device_->counts();
  figures.logical_read_bytes = device.logical_bytes;
  figures.physical_read_bytes = device.physical_bytes;
  figures.copied_bytes = device.copied_bytes;
  figures.mapped_bytes = device.mapped_bytes;
  figures.portable_read_bytes = portable_read_bytes_;
  figures.read_s = double(device.wall_ns) * 1e-9;
  figures.io_cpu_s = double(io_->cpu_ns()) * 1e-9;
  PolicyCounters policy;
  call([&] { policy = policy_.counters(); });
  figures.tasks_created = counters.tasks_created;
  figures.segments = counters.segments;
  figures.promotions = policy.promotions;
  figures.gates_opened = counters.gates_opened;
  figures.peak_bytes_in_flight = policy.peak_bytes_in_flight;
  figures.evictions = policy.evictions;
  figures.rematerialised = policy.rematerialised;
  figures.fallbacks = policy.fallbacks;
  if (options_.backend) {
    const device::Description& device = options_.backend->describe();
    figures.device = {
        device.id,          device.behaviour, policy.device_batches, policy.uploaded_bytes, policy.read_back_bytes,
        policy.shared_loads};
  }
  figures.ran_on_coordinator = counters.ran_on_coordinator;
  return figures;
}

Status RuntimeCore::audit() {
  std::string text = budget_.audit();
  call([&] { text += policy_.audit(); });
  if (!text.empty()) return Error{ErrorKind::environment, "audit", "runtime", text};
  return ok_status();
}

}  // namespace ompipe::session
