#include "script.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "ompipe/io/limits.h"
#include "ompipe/model/resolver.h"

namespace ompipe::session::script {

using arenas::Domain;
using schedule::LoadToken;
using schedule::PublishToken;
using schedule::SlotToken;
using schedule::TaskClass;
using store::Residency;

namespace {

// What every scripted plan says it was made from: one node, no weights.
std::shared_ptr<const model::ResolvedModel> empty_model() {
  model::ModelGraph graph;
  graph.metadata.path = "scripted.onnx";
  graph.metadata.opsets = {{"", 17}};
  graph.files.emplace_back();
  graph.values.resize(2);
  graph.values[0].name = "x";
  graph.values[0].source = model::ValueSource::graph_input;
  graph.values[0].dtype = model::DType::f32;
  graph.values[0].shape = {{1, {}}};
  graph.values[0].has_shape = true;
  graph.values[1].name = "y";
  graph.values[1].producer = 0;
  graph.inputs.push_back({"x", 0, model::DType::f32, {{1, {}}}, true});
  graph.outputs.push_back({"y", 1, model::DType::f32, {{1, {}}}, true});
  model::Node node;
  node.name = "sigmoid";
  node.op_type = "Sigmoid";
  node.opset = 17;
  node.inputs = {0};
  node.outputs = {1};
  graph.nodes.push_back(node);
  model::Payload table;
  table.name = "table";
  table.file = 0;
  table.length = kTableSlices * io::kSliceBytes;
  table.dtype = model::DType::u8;
  table.dims = {int64_t(table.length)};
  graph.payloads.push_back(table);
  model::Resolver resolver(std::move(graph));
  OMPIPE_CHECK(resolver.resolve().ok());
  auto frozen = std::move(resolver).freeze();
  OMPIPE_CHECK(frozen.ok());
  return *frozen;
}

const char* priority_name(Priority priority) {
  return priority == Priority::critical ? "critical" : priority == Priority::prefetch ? "prefetch" : "background";
}

class SilentObserver : public Observer {
 public:
  void on_task(const TaskEvent&) noexcept override {}
  void on_milestone(Milestone, uint64_t) noexcept override {}
};

// Whatever is wrong is reported without an exception: the policy is on the stack.
void expect(bool right, const std::string& what) {
  if (!right) FAIL_CHECK(what);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Log& log) {
  for (const std::string& line : log) out << "\n    " << line;
  return out;
}

Error io_error() { return {.kind = ErrorKind::environment, .phase = "read", .subject = "scripted", .errno_value = 5}; }

arenas::BudgetLimits limit(Domain domain, uint64_t bytes) {
  arenas::BudgetLimits limits;
  limits.domain_bytes[domain] = bytes;
  return limits;
}

PlanPointer make_plan(const std::vector<ObjectSpec>& specs, const std::vector<std::vector<ObjectId>>& segments,
                      const std::vector<plan::SegmentId>& on_device) {
  static const std::shared_ptr<const model::ResolvedModel> model = empty_model();
  auto plan = std::make_shared<plan::PreparedExecutionPlan>();
  plan->model = model;
  for (const ObjectSpec& spec : specs) {
    plan::PreparedObject object;
    object.name = fmt::format("w{}", plan->objects.size());
    object.bytes = spec.bytes;
    object.chunk_staging_bytes = spec.staging_bytes;
    object.aux_staging_bytes = spec.aux_reads > 0 ? kPage : 0;
    for (int i = 0; i < spec.aux_reads; ++i) object.aux_reads.push_back({0, uint64_t(i) * 64, 64, uint64_t(i) * 64});
    if (spec.table) {
      object.row_addressable = true;
      object.sources.push_back({.payload = 0});
      object.source_bytes = kTableSlices * io::kSliceBytes;
    }
    const uint64_t step = spec.bytes / uint64_t(spec.chunks);
    for (int i = 0; i < spec.chunks; ++i) {
      const uint64_t begin = step * uint64_t(i);
      object.chunks.push_back({{{0, begin, step, 0}}, begin, begin + step});
    }
    object.recipe = spec.recipe;
    object.other_side = spec.other_side;
    if (spec.other_side != plan::kNone)
      plan->objects[size_t(spec.other_side)].other_side = ObjectId(plan->objects.size());
    if (spec.recipe == plan::Recipe::upload_pack) {
      object.device_source_bytes = spec.bytes;
      object.device_offsets = {0};
    }
    const plan::Gang need = plan::gang_of(object);
    plan->packed_bytes += need.prepared_bytes;
    if (spec.recipe != plan::Recipe::on_cpu) plan->device_bytes += device::Arena::rounded_bytes(spec.bytes);
    plan->objects.push_back(std::move(object));
  }
  for (const std::vector<ObjectId>& requirements : segments) {
    const auto id = plan::SegmentId(plan->segments.size());
    plan::Gang gang;
    for (const ObjectId object : requirements) {
      plan->objects[size_t(object)].uses.push_back(id);
      gang += plan::gang_of(plan->objects[size_t(object)]);
    }
    plan::Segment& segment = plan->segments.emplace_back();
    segment.name = fmt::format("s{}", id);
    segment.begin = id;
    segment.end = id + 1;
    segment.requirements = requirements;
    plan->gangs.push_back(gang);
  }
  for (const plan::SegmentId id : on_device) {
    plan->segments[size_t(id)].on_device = true;
    ++plan->device_actions;
  }
  return plan;
}

PlanPointer make_chain(int objects) {
  std::vector<std::vector<ObjectId>> segments;
  for (int i = 0; i < objects; ++i) segments.push_back({i});
  return make_plan(std::vector<ObjectSpec>(size_t(objects)), segments);
}

class World::FakeWork : public InvocationWork {
 public:
  FakeWork(const RunSpec& spec, Outputs& kept) : spec_(spec), kept_(kept) {}
  uint64_t execution_bytes() const override { return spec_.execution_bytes; }
  std::span<const uint64_t> output_bytes() const override { return spec_.output_bytes; }
  void attach(arenas::Allocation block, std::vector<arenas::Allocation> outputs) override {
    block_ = std::move(block);
    outputs_ = std::move(outputs);
  }
  uint64_t device_bytes() const override { return spec_.device_bytes; }
  void attach_device(device::Memory there) override { there_ = std::move(there); }
  void device_commands(plan::SegmentId, const store::PreparedStore&, std::vector<device::Command>& commands) override {
    commands.emplace_back(device::Product{});
  }
  void finish(bool succeeded) override {
    if (succeeded) std::move(outputs_.begin(), outputs_.end(), std::back_inserter(kept_));
    outputs_.clear();
    grown_.clear();
  }

  bool may_grow(plan::SegmentId) const override { return !spec_.grows.empty(); }
  exec::MemoryWanted wanted() const override {
    return grown_.size() < spec_.grows.size() ? spec_.grows[grown_.size()] : exec::MemoryWanted{};
  }
  void grow(const exec::MemoryWanted&, arenas::Allocation memory) override { grown_.push_back(std::move(memory)); }

  // The same work before its memory was attached.
  std::unique_ptr<FakeWork> unattached() const { return std::make_unique<FakeWork>(spec_, kept_); }

 private:
  const RunSpec spec_;
  Outputs& kept_;
  arenas::Allocation block_;
  device::Memory there_;
  std::vector<arenas::Allocation> outputs_, grown_;
};

World::World(const WorldOptions& options)
    : options_(options),
      budget_(options.limits),
      preparation_(budget_, {.domain = Domain::preparation}),
      execution_(budget_, {.domain = Domain::execution}),
      io_(budget_, {.domain = Domain::io}),
      device_(budget_, nullptr),
      kept_to_(options.limits),
      loads_(size_t(options.load_tokens)),
      publishes_(size_t(options.publish_tokens)),
      chains_(schedule::kMaxSlots),
      policy_(std::make_unique<Policy>(PolicyOptions{options.threads, options.io_threads, options.load_tokens,
                                                     options.publish_tokens, options.hot, options.device_batches},
                                       budget_, preparation_, execution_, io_, static_cast<Effects&>(*this),
                                       &device_)) {
  policy_->set_scheduler(*this);
}

World::~World() {
  if (std::uncaught_exceptions() > 0) return;
  outputs.clear();
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (!closed_[i]) expect(close(*sessions_[i]).done(), "a session doesn't close");
  }
  expect(possible().empty(), "something can still happen");
  expect(policy_->audit().empty(), policy_->audit());
  expect(budget_.audit().empty(), budget_.audit());
}

SessionState& World::bind(PlanPointer plan, const SessionOptions& options) {
  REQUIRE(try_bind(std::move(plan), options).ok());
  return *sessions_.back();
}

Status World::try_bind(PlanPointer plan, const SessionOptions& options) {
  auto store = store::PreparedStore::create(plan, budget_, arenas::PreparedLayout::separate, {}, &device_);
  OMPIPE_CHECK(store.ok());
  auto session = std::make_unique<SessionState>(std::move(plan), options, std::move(*store));
  Status status = policy_->bind(*session);
  if (!status.ok()) return status;
  sessions_.push_back(std::move(session));
  closed_.push_back(false);
  return status;
}

Handle World::run(SessionState& session, const RunSpec& spec) {
  auto invocation = std::make_unique<Invocation>();
  Handle handle{make_completion()};
  // A kept frame is published without a word to the policy.
  HotSlots& slots = policy_->hot().slots;
  const int slot = session.gate.is_open() ? slots.take_idle(session.instance) : -1;
  if (slot >= 0) {
    slots[slot].completion = handle.completion;
    slots[slot].age = policy_->hot().next_age();
    slots.publish(slot, session.instance, handle.completion->ticket);
    ++published_;
    return handle;
  }
  invocation->session = &session;
  invocation->completion = handle.completion;
  invocation->work = std::make_unique<FakeWork>(spec, outputs);
  invocation->refuse_without_slot = spec.refuse_without_slot;
  for (plan::SegmentId s = 0; !spec.slices.empty() && s < plan::SegmentId(session.plan->segments.size()); ++s) {
    for (const ObjectId object : session.plan->segments[size_t(s)].requirements) {
      if (!session.plan->objects[size_t(object)].row_addressable) continue;
      RowFetch& fetch = invocation->rows.emplace_back();
      fetch.segment = s;
      fetch.object = object;
      for (const uint64_t slice : spec.slices) fetch.slices.push_back({0, slice});
    }
  }
  policy_->submit(std::move(invocation));
  settle();
  return handle;
}

Handle World::prepare(SessionState& session, bool fill_to_limit) {
  auto preparation = std::make_unique<Preparation>();
  Handle handle{make_completion()};
  preparation->session = &session;
  preparation->completion = handle.completion;
  preparation->fill_to_limit = fill_to_limit;
  policy_->prepare(std::move(preparation));
  settle();
  return handle;
}

void World::cancel(const Handle& handle) {
  handle.completion->cancelled.store(true);
  policy_->cancel(*handle.completion);
  settle();
}

Handle World::ask(const std::function<void(Completion&)>& event) {
  asked_.push_back({make_completion()});
  const Handle handle = asked_.back();
  event(*handle.completion);
  return handle;
}

Handle World::set_limits(const arenas::BudgetLimits& limits) {
  const Handle handle = ask([&](Completion& done) { policy_->set_limits(limits, done); });
  limits_asked_.push_back(handle);
  settle();
  return handle;
}

Handle World::evict(SessionState& session, ObjectId object) {
  const Handle handle =
      ask([&](Completion& done) { policy_->evict_named(session, session.plan->objects[size_t(object)].name, done); });
  settle();
  return handle;
}

Handle World::evict_all(SessionState& session) {
  const Handle handle = ask([&](Completion& done) { policy_->evict_all(session, done); });
  settle();
  return handle;
}

Handle World::trim(uint64_t bytes) {
  const Handle handle = ask([&](Completion& done) { policy_->trim(bytes, done); });
  settle();
  return handle;
}

Handle World::close(SessionState& session) {
  const Handle handle = ask([&](Completion& done) { policy_->close(session, done); });
  for (size_t i = 0; i < sessions_.size(); ++i) closed_[i] = closed_[i] || sessions_[i].get() == &session;
  settle();
  return handle;
}

Log World::take_log() { return std::exchange(log_, {}); }

std::string World::name(const SessionState* session, ObjectId object) const {
  const auto found =
      std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& item) { return item.get() == session; });
  return fmt::format("{}{}", char('a' + (found - sessions_.begin())), object);
}

std::string World::name(const SessionState* session, ObjectId object, int chunk) const {
  return name(session, object) + (chunk < 0 ? ".aux" : fmt::format(".{}", chunk));
}

void World::create_load(LoadToken load) {
  expect(!loads_[size_t(load)].created, "a load token is used twice");
  loads_[size_t(load)] = {.created = true};
}

void World::open_load(LoadToken token, TaskClass task_class) {
  FakeLoad& fake = loads_[size_t(token)];
  const Load& load = policy_->load(token);
  expect(fake.created && !fake.opened, "a gate is opened that isn't there, or twice");
  expect(task_class == TaskClass::critical || !critical_dispatchable(),
         "a speculative gate opens beside dispatchable critical work");
  fake.opened = true;
  fake.task_class = task_class;
  const char* const how = load.noop ? "noop" : task_class == TaskClass::critical ? "critical" : "speculative";
  log_.push_back(fmt::format("open {} {}", name(load.session, load.object, int(load.chunk)), how));
}

void World::promote_load(LoadToken token) {
  FakeLoad& fake = loads_[size_t(token)];
  expect(fake.created && fake.opened, "a closed gate's prepack is promoted");
  const Load& load = policy_->load(token);
  if (fake.started || fake.task_class == TaskClass::critical) return;
  fake.task_class = TaskClass::critical;
  log_.push_back("hurry " + name(load.session, load.object, int(load.chunk)));
}

void World::create_publish(PublishToken token) {
  expect(!publishes_[size_t(token)].created && publishes_[size_t(token)].named == 0,
         "a publish token is used again before all that name it have reported");
  publishes_[size_t(token)].created = true;
}

void World::publish(PublishToken token) {
  expect(publishes_[size_t(token)].created, "a publish gate is opened that isn't there");
  publishes_[size_t(token)].created = false;
  const auto& target = policy_->read_target(uint64_t(1) << 63 | uint64_t(token) << 32);
  // Whatever names it and has not been taken back may start from here on.
  for (size_t slot = 0; slot < chains_.size(); ++slot) {
    for (const FakeSegment& segment : chains_[slot]) {
      if (segment.taken_back || std::count(segment.named.begin(), segment.named.end(), token) == 0) continue;
      expect(!target.session || target.session->store->state(target.object) == Residency::resident,
             "a gate opens to a segment before its object is there");
      for (const RowFetch& fetch : policy_->invocation(SlotToken(slot)).rows) {
        expect(fetch.token != token || (!fetch.error && fetch.done == fetch.slices.size()),
               "a gate opens to a segment before its rows are there and right");
      }
    }
  }
  log_.push_back(target.session ? "publish " + name(target.session, target.object) : "publish rows");
}

void World::create_segment(SlotToken slot, std::span<const PublishToken> named) {
  std::deque<FakeSegment>& chain = chains_[size_t(slot)];
  expect(chain.size() < size_t(schedule::kSegmentsAhead), "too many segments of a chain are unreported");
  expect(named.size() <= size_t(schedule::kMaxNamed), "a segment names too many gates");
  for (const PublishToken token : named) {
    expect(publishes_[size_t(token)].created, "a segment names a gate that isn't closed");
    ++publishes_[size_t(token)].named;
  }
  const Invocation& invocation = policy_->invocation(slot);
  const Invocation::LiveSegment& created = invocation.live.back();
  chain.push_back(
      {{named.begin(), named.end()}, invocation.session, invocation.completion, created.segment, created.task});
  log_.push_back(fmt::format("segment {}.{}", invocation.age, created.segment));
}

int World::take_back(SlotToken slot) {
  std::deque<FakeSegment>& chain = chains_[size_t(slot)];
  int taken = 0;
  for (auto segment = chain.rbegin(); segment != chain.rend() && !segment->started; ++segment, ++taken) {
    expect(!segment->taken_back, "a segment is taken back twice");
    segment->taken_back = true;
    log_.push_back(fmt::format("take back {}.{}", policy_->invocation(slot).age, segment->segment));
  }
  return taken;
}

bool World::segment_ready(size_t slot) const {
  const std::deque<FakeSegment>& chain = chains_[slot];
  if (chain.empty() || chain.front().started) return false;
  return std::none_of(chain.front().named.begin(), chain.front().named.end(),
                      [&](PublishToken token) { return publishes_[size_t(token)].created; });
}

bool World::critical_dispatchable() const {
  for (size_t slot = 0; slot < chains_.size(); ++slot) {
    if (segment_ready(slot)) return true;
  }
  return std::any_of(loads_.begin(), loads_.end(), [](const FakeLoad& load) {
    return load.opened && !load.started && load.task_class == TaskClass::critical;
  });
}

bool World::critical_waiting() {
  withheld_ = critical_dispatchable();
  return withheld_;
}

void World::read(const ReadOrder& order) {
  reads_.push_back(order);
  log_.push_back(
      fmt::format("read {} {}", name(order.session, order.object, order.chunk), priority_name(order.priority)));
}

void World::promote_read(uint64_t id, Priority priority) {
  for (ReadOrder& order : reads_) {
    if (order.id != id) continue;
    order.priority = priority;
    log_.push_back(
        fmt::format("promote {} {}", name(order.session, order.object, order.chunk), priority_name(priority)));
  }
}

bool World::withdraw_read(uint64_t id) {
  const auto found = std::find_if(reads_.begin(), reads_.end(), [&](const ReadOrder& order) { return order.id == id; });
  if (found == reads_.end()) return false;
  if (options_.reads_begin_early && options_.reads_begin_early()) begun_.push_back(id);
  if (std::find(begun_.begin(), begun_.end(), id) != begun_.end()) return false;
  log_.push_back("withdraw " + name(found->session, found->object, found->chunk));
  reads_.erase(found);
  return true;
}

bool World::discard(SessionState& session, ObjectId object, arenas::Allocation allocation) {
  for (const std::deque<FakeSegment>& chain : chains_) {
    for (const FakeSegment& segment : chain) {
      if (segment.taken_back || segment.session != &session) continue;
      const std::vector<ObjectId>& needs = session.plan->segments[size_t(segment.segment)].requirements;
      const bool loaded = session.store->state(object) == Residency::evicting;
      expect(!loaded || std::find(needs.begin(), needs.end(), object) == needs.end(),
             "an object is evicted under its consumer");
    }
  }
  for (const uint64_t slot : hot_running_) {
    expect(policy_->hot().slots[int(slot)].session != &session, "an object is evicted under a hot run");
  }
  log_.push_back((session.store->state(object) == Residency::evicting ? "evict " : "give up ") +
                 name(&session, object));
  if (!options_.discards_later || !allocation) return true;
  discards_.push_back({&session, object, std::move(allocation), false});
  return false;
}

arenas::Allocation World::keep(SessionState& session, ObjectId object) {
  const auto found = std::find_if(discards_.begin(), discards_.end(), [&](const FakeDiscard& item) {
    return item.session == &session && item.object == object;
  });
  if (found == discards_.end()) return {};
  if (options_.discards_begin_early && options_.discards_begin_early()) found->begun = true;
  if (found->begun) return {};
  log_.push_back("keep " + name(&session, object));
  arenas::Allocation allocation = std::move(found->allocation);
  discards_.erase(found);
  return allocation;
}

void World::run_on_device(uint64_t id, std::vector<device::Command> commands) {
  static constexpr const char* kNames[] = {"device upload", "device readback", "device pack", "device product"};
  there_.push_back(id);
  expect(there_.size() <= size_t(options_.device_batches), "the device's queue is exceeded");
  log_.emplace_back(kNames[commands.back().index()]);
}

Observer& World::observer() {
  static SilentObserver silent;
  return silent;
}

int World::opened_unfinished() const {
  int count = 0;
  for (size_t i = 0; i < loads_.size(); ++i) {
    count += loads_[i].opened && !const_cast<Policy&>(*policy_).load(LoadToken(i)).noop;
  }
  return count;
}

void World::settle() {
  policy_->pump();
  expect(opened_unfinished() <= options_.threads + 1, "more than T + 1 prepacks are opened and unfinished");
  check_limits();
}

void World::check_limits() {
  const arenas::BudgetLimits now = budget_.limits();
  std::erase_if(limits_asked_, [](const Handle& handle) { return handle.done(); });
  const auto keep = [&](uint64_t& kept, uint64_t limit) {
    kept = limits_asked_.empty() ? limit : std::max(kept, limit);
  };
  keep(kept_to_.global_bytes, now.global_bytes);
  for (const Domain domain : arenas::kDomains) keep(kept_to_.domain_bytes[domain], now.domain_bytes[domain]);
  const arenas::BudgetUsage usage = budget_.usage();
  for (const Domain domain : arenas::kDomains) {
    expect(usage[domain].live_bytes <= kept_to_.domain_bytes[domain], "a domain's budget is exceeded");
  }
  expect(usage.global_bytes <= kept_to_.global_bytes, "the global budget is exceeded");
}

std::vector<Event> World::possible() const {
  using enum Event::Kind;
  std::vector<Event> events;
  for (const ReadOrder& order : reads_) events.push_back({Event::Kind::read, order.id});
  for (size_t i = 0; i < loads_.size(); ++i) {
    if (loads_[i].opened) events.push_back({loads_[i].started ? finish_pack : Event::Kind::start_pack, i});
  }
  for (size_t slot = 0; slot < chains_.size(); ++slot) {
    if (segment_ready(slot)) events.push_back({Event::Kind::start_segment, slot});
    if (!chains_[slot].empty() && chains_[slot].front().started) events.push_back({Event::Kind::finish_segment, slot});
  }
  if (!discards_.empty()) events.push_back({Event::Kind::discard, 0});
  if (!there_.empty()) events.push_back({Event::Kind::device, there_.front()});
  if (published_ > 0) events.push_back({Event::Kind::start_hot, 0});
  for (const uint64_t slot : hot_running_) events.push_back({Event::Kind::finish_hot, slot});
  if (!on_its_way_back_.empty()) events.push_back({Event::Kind::hand_back, 0});
  return events;
}

void World::apply(const Event& event, std::optional<Error> error) {
  switch (event.kind) {
    case Event::Kind::read: {
      const auto found =
          std::find_if(reads_.begin(), reads_.end(), [&](const ReadOrder& order) { return order.id == event.id; });
      REQUIRE(found != reads_.end());
      reads_.erase(found);
      std::erase(begun_, event.id);
      policy_->read_done(event.id, std::move(error));
      break;
    }
    case Event::Kind::start_pack:
      loads_[event.id].started = true;
      break;
    case Event::Kind::finish_pack: {
      Load& load = policy_->load(LoadToken(event.id));
      if (!load.noop) load.error = std::move(error);
      loads_[event.id] = {};
      policy_->prepacked(LoadToken(event.id));
      break;
    }
    case Event::Kind::start_segment:
      start_ready_segment(event.id);
      break;
    case Event::Kind::finish_segment:
      finish_started_segment(event.id, std::move(error));
      break;
    case Event::Kind::discard: {
      FakeDiscard item = std::move(discards_.front());
      discards_.pop_front();
      item.allocation.reset();
      policy_->discarded(*item.session, item.object);
      break;
    }
    case Event::Kind::device:
      REQUIRE(!there_.empty());
      there_.pop_front();
      policy_->device_done({.id = event.id, .error = std::move(error)});
      break;
    case Event::Kind::start_hot:
      return claim_hot();
    case Event::Kind::finish_hot:
      if (!leave_hot(event.id, std::move(error))) return;
      break;
    case Event::Kind::hand_back:
      policy_->submit(std::move(on_its_way_back_.front()));
      on_its_way_back_.pop_front();
      break;
  }
  // A start is no event of the policy's, unless the last critical one makes room for what was held back.
  const bool start = event.kind == Event::Kind::start_pack || event.kind == Event::Kind::start_segment;
  if (start && !(withheld_ && !critical_dispatchable())) return;
  withheld_ = false;
  settle();
}

void World::start_ready_segment(size_t slot) {
  chains_[slot].front().started = true;
  if (chains_[slot].front().taken_back) return;
  Invocation& invocation = policy_->invocation(SlotToken(slot));
  const uint32_t task = invocation.next_to_run++;
  expect(task == invocation.done && task == chains_[slot].front().task, "segments run out of order");
  const plan::SegmentId segment = invocation.segments[task % schedule::kSegmentsAhead];
  if (invocation.suppressed) return;
  for (const ObjectId object : invocation.session->plan->segments[size_t(segment)].requirements) {
    const bool by_rows = std::any_of(invocation.rows.begin(), invocation.rows.end(), [&](const RowFetch& fetch) {
      return fetch.segment == segment && fetch.object == object && fetch.token >= 0 &&
             fetch.done == fetch.slices.size();
    });
    expect(by_rows || invocation.session->store->state(object) == Residency::resident,
           "a segment starts before all it needs is there");
  }
}

void World::finish_started_segment(size_t slot, std::optional<Error> error) {
  const FakeSegment& segment = chains_[slot].front();
  if (!segment.taken_back) {
    Invocation& invocation = policy_->invocation(SlotToken(slot));
    const size_t place = segment.task % schedule::kSegmentsAhead;
    if (options_.choice) invocation.chosen[place] = options_.choice(segment.segment);
    if (error && !invocation.suppressed) {
      invocation.body_errors[place] = std::move(error);
      invocation.suppressed = true;
    }
  }
  for (const PublishToken token : segment.named) --publishes_[size_t(token)].named;
  chains_[slot].pop_front();
  policy_->segment_done(SlotToken(slot));
}

// As HotRuns does, without a thread: what it does at once is one event here.
void World::claim_hot() {
  HotShared& hot = policy_->hot();
  const int index = hot.slots.claim_oldest();
  REQUIRE(index >= 0);
  --published_;
  HotSlot& slot = hot.slots[index];
  if (slot.session->gate.claim()) {
    log_.push_back(fmt::format("hot {}", slot.age));
    hot_running_.push_back(uint64_t(index));
    for (ObjectId object = 0; object < ObjectId(slot.session->objects.size()); ++object)
      expect(slot.session->store->state(object) == Residency::resident, "a run is hot and not all of it is resident");
    return;
  }
  log_.push_back(fmt::format("cold {}", slot.age));
  auto invocation = std::make_unique<Invocation>();
  invocation->session = slot.session;
  invocation->completion = std::move(slot.completion);
  invocation->age = slot.age;
  slot.work->finish(false);
  invocation->work = static_cast<FakeWork&>(*slot.work).unattached();
  slot.work.reset();
  invocation->left_slot = index;
  on_its_way_back_.push_back(std::move(invocation));
}

// True if the policy is to be told.
bool World::leave_hot(size_t index, std::optional<Error> error) {
  HotShared& hot = policy_->hot();
  REQUIRE(std::erase(hot_running_, uint64_t(index)) == 1);
  HotSlot& slot = hot.slots[int(index)];
  slot.work->finish(!error);
  slot.session->gate.leave(now_ns(), options_.hot_predicted_ns);
  const CompletionRef completion = std::move(slot.completion);
  completion->diagnostics.hot = true;
  hot.slots.put_idle(int(index), slot.session->instance);
  completion->complete(error ? Status(*error) : ok_status());
  return hot.take_waiting();
}

void World::drain(const std::function<size_t(size_t)>& choose) {
  for (std::vector<Event> events = possible(); !events.empty(); events = possible())
    apply(events[choose(events.size())]);
}

void World::drain() {
  drain([](size_t) { return size_t(0); });
}

LoadToken World::token_of(SessionState& session, ObjectId object, int chunk) const {
  for (size_t i = 0; i < loads_.size(); ++i) {
    const Load& load = const_cast<Policy&>(*policy_).load(LoadToken(i));
    if (load.session == &session && load.object == object && int(load.chunk) == chunk) return LoadToken(i);
  }
  FAIL("no such chunk is on its way: " << name(&session, object, chunk));
  return -1;
}

std::vector<ReadOrder>::iterator World::find_read(SessionState& session, ObjectId object, int chunk) {
  const auto found = std::find_if(reads_.begin(), reads_.end(), [&](const ReadOrder& order) {
    return order.session == &session && order.object == object && order.chunk == chunk;
  });
  REQUIRE_MESSAGE(found != reads_.end(), "not being read: ", name(&session, object, chunk));
  return found;
}

void World::read(SessionState& session, ObjectId object, int chunk, std::optional<Error> error) {
  apply({Event::Kind::read, find_read(session, object, chunk)->id}, std::move(error));
}

void World::begin_read(SessionState& session, ObjectId object, int chunk) {
  begun_.push_back(find_read(session, object, chunk)->id);
}

void World::start_pack(SessionState& session, ObjectId object, int chunk) {
  const LoadToken token = token_of(session, object, chunk);
  REQUIRE_MESSAGE(loads_[size_t(token)].opened, "not opened: ", name(&session, object, chunk));
  apply({Event::Kind::start_pack, uint64_t(token)});
}

void World::finish_pack(SessionState& session, ObjectId object, int chunk, std::optional<Error> error) {
  const LoadToken token = token_of(session, object, chunk);
  REQUIRE_MESSAGE(loads_[size_t(token)].started, "not started: ", name(&session, object, chunk));
  apply({Event::Kind::finish_pack, uint64_t(token)}, std::move(error));
}

void World::pack(SessionState& session, ObjectId object, int chunk) {
  start_pack(session, object, chunk);
  finish_pack(session, object, chunk);
}

void World::end_on_device(std::optional<Error> error) {
  REQUIRE_MESSAGE(!there_.empty(), "the device has nothing to do");
  apply({Event::Kind::device, there_.front()}, std::move(error));
}

void World::load(SessionState& session, ObjectId object) {
  const plan::PreparedObject& spec = session.plan->objects[size_t(object)];
  for (size_t i = 0; i < spec.aux_reads.size(); ++i) read(session, object, -1);
  for (int chunk = 0; chunk < int(spec.chunks.size()); ++chunk) {
    read(session, object, chunk);
    pack(session, object, chunk);
  }
}

size_t World::slot_of(const Handle& handle) {
  for (size_t slot = 0; slot < chains_.size(); ++slot) {
    if (!chains_[slot].empty() && chains_[slot].front().handle == handle.completion) return slot;
  }
  FAIL("no segment of that run has been created");
  return 0;
}

void World::start_segment(const Handle& handle) {
  const size_t slot = slot_of(handle);
  REQUIRE_MESSAGE(segment_ready(slot), "the segment can't start");
  apply({Event::Kind::start_segment, slot});
}

void World::finish_segment(const Handle& handle, std::optional<Error> error) {
  const size_t slot = slot_of(handle);
  REQUIRE_MESSAGE(chains_[slot].front().started, "the segment hasn't started");
  apply({Event::Kind::finish_segment, slot}, std::move(error));
}

void World::segment(const Handle& handle) {
  start_segment(handle);
  finish_segment(handle);
}

void World::begin_discard() {
  const auto next =
      std::find_if(discards_.begin(), discards_.end(), [](const FakeDiscard& item) { return !item.begun; });
  REQUIRE(next != discards_.end());
  next->begun = true;
}

void World::discard() {
  REQUIRE(!discards_.empty());
  apply({Event::Kind::discard, 0});
}

size_t every_order(const std::function<void(const std::function<size_t(size_t)>&)>& body, size_t limit) {
  struct Choice {
    size_t taken, of;
  };
  std::vector<Choice> path;
  for (size_t count = 1;; ++count) {
    size_t depth = 0;
    body([&](size_t of) {
      if (depth == path.size()) path.push_back({0, of});
      return path[depth++].taken;
    });
    while (!path.empty() && path.back().taken + 1 == path.back().of) path.pop_back();
    if (path.empty() || count == limit) return count;
    ++path.back().taken;
  }
}

}  // namespace ompipe::session::script
