#include "ompipe/session/session.h"

#include <mutex>

#include "frame_work.h"
#include "ompipe/model/reader.h"
#include "ompipe/session/planning.h"
#include "option_parts.h"
#include "row_fetches.h"
#include "runtime_core.h"

namespace ompipe::session {

// The session's own: its state in the policy, and its frames.
class SessionCore : public std::enable_shared_from_this<SessionCore>, public FrameHome {
 public:
  SessionCore(std::shared_ptr<Runtime> runtime, std::unique_ptr<SessionState> state)
      : runtime_(std::move(runtime)),
        state_(std::move(state)),
        tables_(row_tables(*state_->plan, state_->options.verify)) {}

  RuntimeCore& core() { return runtime_->core(); }
  SessionState& state() { return *state_; }

  std::unique_ptr<exec::Frame> take_frame() {
    {
      std::lock_guard lock(mutex_);
      if (!frames_.empty()) {
        std::unique_ptr<exec::Frame> frame = std::move(frames_.back());
        frames_.pop_back();
        return frame;
      }
    }
    return std::make_unique<exec::Frame>(state_->plan, core().workers(), core().options().backend);
  }
  // FrameHome
  std::shared_ptr<void> runtime() const override { return runtime_; }
  std::span<const RowTable> tables() const override { return tables_; }
  void take_back(std::unique_ptr<exec::Frame> frame) override {
    std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
  }

  // A handle's shared half, with its way to cancel.
  CompletionRef new_completion() {
    CompletionRef completion = make_completion();
    completion->host = &core();
    return completion;
  }
  ExecutionHandle handle(CompletionRef completion) { return {std::move(completion), shared_from_this()}; }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<SessionState> state_;
  const std::vector<RowTable> tables_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<exec::Frame>> frames_;
};

Result<std::unique_ptr<RuntimeSession>> RuntimeSession::open(std::shared_ptr<Runtime> runtime,
                                                             const std::string& model_path,
                                                             const SessionOptions& options) {
  RuntimeCore& core = runtime->core();
  if (core.home().left()) return HomeProcess::error("open", model_path);
  Result<model::ModelGraph> graph = model::read_model(model_path, {.digests_path = options.digests_path});
  if (!graph.ok()) return graph.error();
  core.observer().on_milestone(Milestone::metadata, now_ns());
  Result<std::shared_ptr<const model::ResolvedModel>> model = resolve_model(std::move(*graph), core.options(), options);
  if (!model.ok()) return model.error();
  core.observer().on_milestone(Milestone::resolved, now_ns());
  Result<std::shared_ptr<const plan::PreparedExecutionPlan>> plan =
      plan::build_plan(*model, plan_options(core.options(), options));
  if (!plan.ok()) return plan.error();
  core.observer().on_milestone(Milestone::planned, now_ns());
  if (Status status = tokens_suffice(core.options(), **plan); !status.ok()) return status.error();

  Result<std::unique_ptr<store::PreparedStore>> store =
      store::PreparedStore::create(*plan, core.budget(), prepared_layout(core.limits()),
                                   core.binding(arenas::Domain::prepared), &core.device_arena());
  if (!store.ok()) return store.error();
  auto state = std::make_unique<SessionState>(*plan, options, std::move(*store));
  SessionState* const bound = state.get();
  Status status = ok_status();
  core.call([&] { status = core.policy().bind(*bound); });
  if (!status.ok()) return status.error();
  core.observer().on_milestone(Milestone::session_ready, now_ns());
  return std::unique_ptr<RuntimeSession>(
      new RuntimeSession(std::make_shared<SessionCore>(std::move(runtime), std::move(state))));
}

namespace {

ExecutionHandle in_forked_child(const char* phase, const plan::PreparedExecutionPlan& plan) {
  CompletionRef completion = make_completion();
  completion->complete(HomeProcess::error(phase, plan.model->metadata().path));
  return {std::move(completion), nullptr};
}

}  // namespace

RuntimeSession::RuntimeSession(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}

RuntimeSession::~RuntimeSession() {
  if (core_->core().home().left()) {
    leave_alone(core_);
    return;
  }
  OMPIPE_CHECK(
      core_->core().ask([&](Completion& closed) { core_->core().policy().close(core_->state(), closed); }).ok());
}

ExecutionHandle RuntimeSession::PrepareAsync() {
  if (core_->core().home().left()) return in_forked_child("prepare", plan());
  const uint64_t start_ns = now_ns();
  const CompletionRef completion = core_->new_completion();
  auto preparation = std::make_unique<Preparation>();
  preparation->session = &core_->state();
  preparation->completion = completion;
  preparation->fill_to_limit = core_->state().options.fill_to_limit;
  completion->diagnostics.submission_s = double(now_ns() - start_ns) * 1e-9;
  core_->core().submit(std::move(preparation));
  return core_->handle(completion);
}

namespace {

// Their memory may be what the next run writes to.
void let_go(exec::RuntimeContext& context) {
  for (exec::NamedTensor& output : context.outputs) output.tensor = {};
}

}  // namespace

Status RuntimeSession::Run(exec::RuntimeContext& context, const RunOptions& options) {
  RuntimeCore& core = core_->core();
  if (!core.home().left()) {
    let_go(context);
    if (std::optional<Status> status = core.hot_runs().run_now(core_->state(), context)) return *std::move(status);
  }
  return RunAsync(context, options).Wait();
}

ExecutionHandle RuntimeSession::RunAsync(exec::RuntimeContext& context, const RunOptions& options) {
  if (core_->core().home().left()) return in_forked_child("run", plan());
  const uint64_t start_ns = now_ns();
  let_go(context);
  std::unique_ptr<FrameWork> work;
  if (CompletionRef hot = core_->core().hot_runs().submit(core_->state(), context, start_ns, work))
    return core_->handle(std::move(hot));
  const CompletionRef completion = core_->new_completion();
  if (!work) {
    work = std::make_unique<FrameWork>(core_->take_frame(), *core_);
    if (Status status = work->bind(context); !status.ok()) {
      completion->complete(std::move(status));
      return core_->handle(completion);
    }
  }
  auto invocation = std::make_unique<Invocation>();
  invocation->session = &core_->state();
  invocation->completion = completion;
  invocation->rows = work->rows();
  invocation->work = std::move(work);
  invocation->refuse_without_slot = options.refuse_without_slot;
  invocation->completion->diagnostics.segment_wait_s.reserve(core_->state().plan->segments.size());
  completion->diagnostics.submission_s = double(now_ns() - start_ns) * 1e-9;
  core_->core().submit(std::move(invocation));
  return core_->handle(completion);
}

Status RuntimeSession::Evict(const std::string& object) {
  if (core_->core().home().left()) return HomeProcess::error("evict", object);
  return core_->core().ask([&](Completion& done) { core_->core().policy().evict_named(core_->state(), object, done); });
}

Status RuntimeSession::EvictAll() {
  if (core_->core().home().left()) return HomeProcess::error("evict", plan().model->metadata().path);
  return core_->core().ask([&](Completion& done) { core_->core().policy().evict_all(core_->state(), done); });
}

ExecutionHandle RuntimeSession::RunAsync(std::shared_ptr<exec::RuntimeContext> context, const RunOptions& options) {
  ExecutionHandle handle = RunAsync(*context, options);
  handle.context_ = std::move(context);
  return handle;
}

const plan::PreparedExecutionPlan& RuntimeSession::plan() const { return *core_->state().plan; }

namespace {

// Of a resident object the key of the layout that its bytes are in.
std::string layout_key_of(const SessionState& state, plan::ObjectId id) {
  const plan::PreparedObject& object = state.plan->objects[size_t(id)];
  if (!object.narrow || state.store->state(id) != store::Residency::resident) return object.layout_key;
  return kernels::layout_key(state.store->narrow(id) ? *object.narrow : object.layout);
}

}  // namespace

std::vector<ObjectFigures> RuntimeSession::objects() const {
  std::vector<ObjectFigures> figures;
  if (core_->core().home().left()) return figures;
  const SessionState& state = core_->state();
  core_->core().call([&] {
    for (plan::ObjectId id = 0; id < plan::ObjectId(state.objects.size()); ++id) {
      const plan::PreparedObject& object = state.plan->objects[size_t(id)];
      figures.push_back({object.key, object.name, "portable", layout_key_of(state, id),
                         store::residency_name(state.store->state(id)), state.store->generation(id), object.bytes});
    }
  });
  return figures;
}

uint64_t RuntimeSession::avoided_branch_bytes() const {
  if (core_->core().home().left()) return 0;
  const SessionState& state = core_->state();
  std::vector<bool> loaded(state.objects.size());
  core_->core().call([&] {
    for (size_t id = 0; id < loaded.size(); ++id) loaded[id] = state.objects[id].loaded_before;
  });
  // Objects may share payloads.
  std::vector<bool> needed(state.plan->model->payloads().size()), unread(needed.size());
  for (size_t id = 0; id < loaded.size(); ++id) {
    const plan::PreparedObject& object = state.plan->objects[id];
    for (const plan::Source& source : object.sources)
      (object.certain || loaded[id] ? needed : unread)[size_t(source.payload)] = true;
  }
  uint64_t bytes = 0;
  for (size_t payload = 0; payload < unread.size(); ++payload) {
    if (unread[payload] && !needed[payload]) bytes += state.plan->model->payload(model::PayloadId(payload)).length;
  }
  return bytes;
}

}  // namespace ompipe::session
