#include "ompipe/session/accounting.h"

#include <algorithm>
#include <deque>

#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/topology.h"
#include "ompipe/exec/frame.h"
#include "option_parts.h"
#include "policy.h"
#include "row_fetches.h"

namespace ompipe::session {

using arenas::Domain;
using schedule::LoadToken;
using schedule::PublishToken;
using schedule::SlotToken;

namespace {

// Takes the bytes that a bound frame asks for, and keeps the outputs, as a caller does.
class SizedWork : public InvocationWork {
 public:
  SizedWork(const exec::Frame& frame, std::vector<arenas::Allocation>& kept) : frame_(frame), kept_(kept) {}
  uint64_t execution_bytes() const override { return frame_.execution_bytes(); }
  std::span<const uint64_t> output_bytes() const override { return frame_.output_bytes(); }
  void attach(arenas::Allocation block, std::vector<arenas::Allocation> outputs) override {
    block_ = std::move(block);
    kept_ = std::move(outputs);
  }
  uint64_t device_bytes() const override { return frame_.device_bytes(); }
  void attach_device(device::Memory there) override { there_ = std::move(there); }
  void finish(bool) override {
    block_.reset();
    there_.reset();
  }

 private:
  const exec::Frame& frame_;
  std::vector<arenas::Allocation>& kept_;
  arenas::Allocation block_;
  device::Memory there_;
};

// Of a segment that chooses, without the data that it would look at: the branch with more to prepare, one pass of a
// Loop's body.
int32_t likely_choice(const plan::PreparedExecutionPlan& plan, plan::SegmentId id) {
  const plan::Segment& segment = plan.segments[size_t(id)];
  if (segment.next.size() < 2) return 0;
  const plan::Step step = plan.actions[size_t(segment.end) - 1].step;
  if (step == plan::Step::enter) return 0;
  if (step == plan::Step::repeat) return 1;
  uint64_t bytes[2] = {0, 0};
  for (const plan::Range& range : plan.ranges) {
    if (range.head != segment.end - 1) continue;
    for (plan::SegmentId s = range.begin; s < range.end; ++s)
      bytes[range.begin == segment.next[0] ? 0 : 1] += plan.gangs[size_t(s)].prepared_bytes;
  }
  return bytes[1] > bytes[0] ? 1 : 0;
}

// The sequential scheduler and the I/O service in one, for a policy with one session and one invocation at a time:
// tasks in the order in which they were opened, a read only when no task is ready. Its observer keeps the accounts.
class Prediction : private schedule::Scheduler, private Effects, private Observer {
 public:
  Prediction(const PolicyOptions& options, const MemoryLimits& limits)
      : budget_(budget_limits(limits)),
        preparation_(budget_, block_arena(Domain::preparation, limits, {})),
        execution_(budget_, block_arena(Domain::execution, limits, {})),
        io_(budget_, block_arena(Domain::io, limits, {})),
        device_(budget_, nullptr),
        policy_(options, budget_, preparation_, execution_, io_, *this, &device_) {
    policy_.set_scheduler(*this);
  }

  Status bind(const std::shared_ptr<const plan::PreparedExecutionPlan>& plan, SessionOptions options,
              arenas::PreparedLayout layout) {
    options.verify = Verify::never;  // there are no bytes to be right or wrong
    Result<std::unique_ptr<store::PreparedStore>> store =
        store::PreparedStore::create(plan, budget_, layout, {}, &device_);
    if (!store.ok()) return store.error();
    session_ = std::make_unique<SessionState>(plan, options, std::move(*store));
    return policy_.bind(*session_);
  }

  CompletionRef prepare() {
    auto preparation = std::make_unique<Preparation>();
    auto completion = make_completion();
    preparation->session = session_.get();
    preparation->completion = completion;
    preparation->fill_to_limit = session_->options.fill_to_limit;
    policy_.prepare(std::move(preparation));
    return completion;
  }

  CompletionRef run(const exec::Frame& frame, std::vector<RowFetch> rows) {
    outputs_.clear();
    auto invocation = std::make_unique<Invocation>();
    auto completion = make_completion();
    invocation->session = session_.get();
    invocation->completion = completion;
    invocation->work = std::make_unique<SizedWork>(frame, outputs_);
    invocation->rows = std::move(rows);
    policy_.submit(std::move(invocation));
    return completion;
  }

  // Until nothing is left to do.
  void drain() {
    pump();
    while (!ready_.empty() || !there_.empty() || !reads_.empty()) {
      if (!ready_.empty()) {
        run_task();
      } else if (!there_.empty()) {
        const uint64_t id = there_.front();
        there_.pop_front();
        policy_.device_done({.id = id, .start_ns = 1, .end_ns = 1});
      } else {
        finish_read();
      }
      pump();
    }
  }

  // After a run and all that it has left under way.
  void end_run() { end_step(); }

  Accounting finish() && {
    accounting_.usage = budget_.usage();
    accounting_.evictions = policy_.counters().evictions;
    accounting_.rematerialised = policy_.counters().rematerialised;
    return std::move(accounting_);
  }

 private:
  struct Ready {
    bool load;
    int32_t token;
  };

  void pump() {
    policy_.pump();
    note();
  }

  void run_task() {
    const Ready task = ready_.front();
    ready_.pop_front();
    if (task.load) {
      policy_.prepacked(task.token);
      return;
    }
    Invocation& invocation = policy_.invocation(task.token);
    const size_t place = invocation.next_to_run++ % schedule::kSegmentsAhead;
    invocation.times[place] = {.start_ns = 1, .end_ns = 1};
    invocation.chosen[place] = likely_choice(*session_->plan, invocation.segments[place]);
    chain_.pop_front();
    if (!chain_.empty() && chain_.front().empty()) ready_.push_back({false, task.token});
    policy_.segment_done(task.token);
  }

  // As the I/O service chooses: by priority, then by plan position, then by order of submission.
  void finish_read() {
    const auto next = std::min_element(reads_.begin(), reads_.end(), [](const ReadOrder& a, const ReadOrder& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.plan_position < b.plan_position;
    });
    const uint64_t id = next->id;
    reads_.erase(next);
    policy_.read_done(id, std::nullopt);
  }

  // schedule::Scheduler
  schedule::Capabilities capabilities() const override { return {}; }  // the policy doesn't ask
  int threads() const override { return 1; }
  schedule::Counters counters() const override { return {}; }
  const char* scheduling_slice() const override { return "none"; }
  void post(const schedule::Message&) override {}
  void create_load(LoadToken) override {}
  void open_load(LoadToken load, schedule::TaskClass) override { ready_.push_back({true, load}); }
  void promote_load(LoadToken) override {}
  void create_publish(PublishToken) override {}
  void publish(PublishToken token) override {
    for (size_t i = 0; i < chain_.size(); ++i) {
      if (std::erase(chain_[i], token) > 0 && i == 0 && chain_[i].empty()) ready_.push_back({false, slot_});
    }
  }
  void create_segment(SlotToken slot, std::span<const PublishToken> named) override {
    slot_ = slot;
    chain_.emplace_back(named.begin(), named.end());
    if (chain_.size() == 1 && named.empty()) ready_.push_back({false, slot});
  }
  int take_back(SlotToken) override { return 0; }  // nothing is cancelled here, and nothing fails
  bool critical_waiting() override { return false; }
  void publish_hot() override {}
  void taken_hot() override {}
  bool run_on_caller(schedule::CallerBody, void*) override { return false; }
  void limit_hot(bool) override {}

  // Effects
  void read(const ReadOrder& order) override {
    reads_.push_back(order);
    note();
  }
  void promote_read(uint64_t id, Priority priority) override {
    for (ReadOrder& order : reads_) {
      if (order.id == id) order.priority = priority;
    }
  }
  bool withdraw_read(uint64_t id) override {
    return std::erase_if(reads_, [&](const ReadOrder& order) { return order.id == id; }) > 0;
  }
  bool discard(SessionState&, plan::ObjectId, arenas::Allocation) override { return true; }
  arenas::Allocation keep(SessionState&, plan::ObjectId) override { return {}; }
  void run_on_device(uint64_t id, std::vector<device::Command>) override { there_.push_back(id); }
  Observer& observer() override { return *this; }
  int32_t executor() const override { return 0; }

  // Observer
  void on_milestone(Milestone, uint64_t) noexcept override {}
  void on_task(const TaskEvent& event) noexcept override {
    note();
    switch (event.kind) {
      case TaskKind::evict:
        step_.evicted.push_back(event.object);
        break;
      case TaskKind::publish:
        step_.published = event.object;
        end_step();
        break;
      case TaskKind::segment:
        step_.segment = event.segment;
        for (const RowFetch& fetch : policy_.invocation(slot_).rows) {
          if (fetch.segment == event.segment && fetch.token >= 0) step_.rows_of.push_back(fetch.object);
        }
        end_step();
        break;
      default:
        break;
    }
  }

  void note() {
    const arenas::BudgetUsage usage = budget_.usage();
    for (Domain domain : arenas::kDomains)
      step_.peak_bytes[domain] = std::max(step_.peak_bytes[domain], usage[domain].live_bytes);
  }
  void end_step() {
    note();
    const arenas::BudgetUsage usage = budget_.usage();
    for (Domain domain : arenas::kDomains) step_.live_bytes[domain] = usage[domain].live_bytes;
    accounting_.steps.push_back(std::exchange(step_, {}));
  }

  arenas::Budget budget_;
  arenas::BlockArena preparation_, execution_, io_;
  device::Arena device_;
  std::unique_ptr<SessionState> session_;
  Policy policy_;
  std::vector<arenas::Allocation> outputs_;
  std::deque<Ready> ready_;
  std::deque<uint64_t> there_;    // on the device
  std::vector<ReadOrder> reads_;  // in the order of submission
  SlotToken slot_ = -1;
  std::deque<std::vector<PublishToken>> chain_;  // created segments that have not run: the gates they still wait for
  AccountingStep step_;
  Accounting accounting_;
};

// How a handle ended; nothing is left that could end it later.
Status status_of(Completion& completion) {
  OMPIPE_CHECK(completion.ready(), "the policy leaves a handle open with nothing to do");
  return *completion.status;
}

}  // namespace

Result<Accounting> predict_accounting(const std::shared_ptr<const plan::PreparedExecutionPlan>& plan,
                                      std::span<const exec::RuntimeContext> runs, const RuntimeOptions& runtime,
                                      const SessionOptions& session, bool prepares) {
  RuntimeOptions options = runtime;
  if (options.threads == 0) {
    const Result<arenas::Topology> topology = arenas::Topology::native();
    if (!topology.ok()) return topology.error();
    options.threads = int(topology->cores().size());
  }
  options.limits.device_bytes = device_limit(options.limits, options.backend);
  if (Status status = tokens_suffice(options, *plan); !status.ok()) return status.error();
  PolicyOptions policy = policy_options(options);
  policy.hot = false;  // it has no threads to run so; what a kept frame holds is retained by the arenas instead
  Prediction prediction(policy, options.limits);
  if (Status status = prediction.bind(plan, session, prepared_layout(options.limits)); !status.ok())
    return status.error();
  CompletionRef preparation;
  if (prepares) preparation = prediction.prepare();
  if (prepares && session.mode == Mode::eager) prediction.drain();
  const std::vector<RowTable> tables = row_tables(*plan, session.verify);
  // Every run's: a session takes the one that the last run gave back.
  exec::Frame frame(plan, policy.threads, runtime.backend);
  for (const exec::RuntimeContext& context : runs) {
    if (Status status = frame.bind(context); !status.ok()) return status.error();
    const CompletionRef run = prediction.run(frame, row_fetches(tables, context));
    prediction.drain();
    if (preparation) {
      if (Status status = status_of(*preparation); !status.ok()) return status.error();
    }
    if (Status status = status_of(*run); !status.ok()) return status.error();
    prediction.end_run();
  }
  return std::move(prediction).finish();
}

}  // namespace ompipe::session
