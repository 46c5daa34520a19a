// How a hot run ends on the thread that ran it: what it may still touch, and in which order it gives things back.
// Sessions and slots are made by hand, so that a thread can be held where no caller could hold it.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "../model/onnx_builder.h"
#include "ompipe/plan/plan.h"
#include "runtime_core.h"

namespace ompipe::session::testing {

namespace {

// y = sigmoid(x): a session that needs no weights, and one run of it after the other. Outlives whoever runs it.
class Sigmoid : public FrameHome {
  arenas::Budget budget_;
  arenas::BlockArena arena_{budget_, {.domain = arenas::Domain::execution}};

 public:
  explicit Sigmoid(int workers) : workers_(workers) {
    const auto model = test::open_spec({.nodes = {{.op = "Sigmoid", .inputs = {"x"}, .outputs = {"y"}}},
                                        .inputs = {{.name = "x", .dims = {"2"}}},
                                        .outputs = {{.name = "y", .dims = {"2"}}}});
    REQUIRE(model.ok());
    const auto plan = plan::build_plan(*model, {});
    REQUIRE(plan.ok());
    auto store =
        store::PreparedStore::create(*plan, budget_, arenas::PreparedLayout::separate, arenas::MemoryBinding{});
    REQUIRE(store.ok());
    state = std::make_unique<SessionState>(*plan, SessionOptions{}, std::move(*store));
    const std::array<int64_t, 1> shape{2};
    context.inputs = {
        {"x", {exec::make_tensor(model::DType::f32, shape, reinterpret_cast<std::byte*>(x_.data())), nullptr}}};
  }

  // A frame that is bound and has its memory.
  std::unique_ptr<FrameWork> work() {
    auto work = std::make_unique<FrameWork>(std::make_unique<exec::Frame>(state->plan, workers_), *this);
    REQUIRE(work->bind(context).ok());
    const auto allocate = [&](uint64_t bytes) {
      auto memory = arena_.allocate(bytes, arenas::Urgency::critical, "a test's run");
      REQUIRE(memory.ok());
      return std::move(*memory);
    };
    std::vector<arenas::Allocation> outputs;
    for (const uint64_t bytes : work->output_bytes()) outputs.push_back(allocate(bytes));
    work->attach(allocate(work->execution_bytes()), std::move(outputs));
    return work;
  }
  // Publishes such a run; its slot.
  int publish(HotShared& shared, const CompletionRef& handle) {
    const int index = shared.slots.take_empty();
    REQUIRE(index >= 0);
    HotSlot& slot = shared.slots[index];
    slot.session = state.get();
    slot.work = work();
    slot.completion = handle;
    slot.age = shared.next_age();
    shared.slots.publish(index, state->instance, handle->ticket);
    return index;
  }
  bool right() const {
    const exec::HeldTensor* const y = context.output("y");
    return y && std::abs(y->view.read<float>()[0] - 0.5f) < 1e-6f;
  }

  // FrameHome
  void take_back(std::unique_ptr<exec::Frame>) override {}
  std::shared_ptr<void> runtime() const override { return nullptr; }
  std::span<const RowTable> tables() const override { return {}; }

  std::unique_ptr<SessionState> state;
  exec::RuntimeContext context;
  uint64_t live_bytes() const { return arenas::global_sum(budget_.usage().live_bytes()); }

 private:
  const int workers_;
  std::array<float, 2> x_{0.0f, 1.0f};
};

struct AloneWorker : schedule::Worker {
  int index() const override { return 0; }
  void run_tiles(int64_t tiles, schedule::TileFunction fn, void* arg, double) override {
    for (int64_t tile = 0; tile < tiles; ++tile) fn(arg, tile, 0);
  }
  uint64_t helpers_cpu_ns() const override { return 0; }
  void expect(double) override {}
};

// Creates nothing: hot runs need only a place for a caller.
class OnePlace : public schedule::Scheduler {
 public:
  schedule::Capabilities capabilities() const override { return {"one place", false, false, false, 0}; }
  int threads() const override { return 1; }
  schedule::Counters counters() const override { return {}; }
  const char* scheduling_slice() const override { return "none"; }
  void post(const schedule::Message&) override {}
  void create_load(schedule::LoadToken) override {}
  void open_load(schedule::LoadToken, schedule::TaskClass) override {}
  void promote_load(schedule::LoadToken) override {}
  void create_publish(schedule::PublishToken) override {}
  void publish(schedule::PublishToken) override {}
  void create_segment(schedule::SlotToken, std::span<const schedule::PublishToken>) override {}
  int take_back(schedule::SlotToken) override { return 0; }
  void publish_hot() override {}
  void taken_hot() override { ++taken; }
  bool run_on_caller(schedule::CallerBody body, void* arg) override {
    AloneWorker worker;
    body(arg, worker);
    return true;
  }
  void limit_hot(bool) override {}
  bool critical_waiting() override { return false; }

  int taken = 0;
};

// A runtime that only looks on: how things stand whenever a hot run tells it something.
class Onlooker : public HotHost, public Observer {
 public:
  Onlooker(HotShared& hot, const Sigmoid& sigmoid, Completion& handle)
      : hot_(hot), sigmoid_(sigmoid), handle_(handle) {}

  struct Seen {
    bool busy, ended;
    uint64_t live_bytes;
  };
  std::optional<Seen> at_hand_over, at_release;
  std::unique_ptr<Invocation> handed_over;
  OnePlace places;

  schedule::Scheduler& scheduler() override { return places; }
  Observer& observer() override { return *this; }
  void submit(std::unique_ptr<Invocation> invocation) override {
    at_hand_over = look();
    handed_over = std::move(invocation);
  }
  void hot_released() override { at_release = look(); }
  void cancel(CompletionRef) override {}
  void run_here(Completion&) override {}
  void on_task(const TaskEvent&) noexcept override {}
  void on_milestone(Milestone, uint64_t) noexcept override {}

 private:
  Seen look() { return {hot_.slots.busy(sigmoid_.state->instance), handle_.ready(), sigmoid_.live_bytes()}; }

  HotShared& hot_;
  const Sigmoid& sigmoid_;
  Completion& handle_;
};

// One published run of a session, and those who may end it.
struct Scene {
  Sigmoid sigmoid{1};
  CompletionRef handle = make_completion();
  HotShared hot;
  Onlooker host{hot, sigmoid, *handle};
  HotRuns runs{hot, host};
  int slot = -1;

  Scene() {
    sigmoid.state->instance = 1;
    slot = sigmoid.publish(hot, handle);
  }
  // A compute thread, or whoever waits for the handle.
  void run(bool by_team) {
    if (!by_team) return runs.run_here(*handle);
    AloneWorker worker;
    REQUIRE(runs.run_claimable(worker) == slot);
    runs.ran_claimable(slot);
  }
};

void wait_until(const std::function<bool()>& reached) {
  while (!reached()) std::this_thread::yield();
}

}  // namespace

TEST_SUITE_BEGIN("hot_ends");

// Its handle has ended and its slot is idle, so nothing keeps the session and the runtime from being closed; whether
// the policy waits for what it has given back, the thread looks up after that.
TEST_CASE("a runtime is closed while a thread of its team still owes the policy a message") {
  auto opened = RuntimeCore::open({.threads = 1});
  REQUIRE(opened.ok());
  std::unique_ptr<RuntimeCore> core = std::move(*opened);
  Sigmoid sigmoid(core->workers());
  SessionState& session = *sigmoid.state;
  core->call([&] { REQUIRE(core->policy().bind(session).ok()); });
  HotShared& hot = core->policy().hot();
  wait_until([&] { return session.gate.is_open(); });
  const CompletionRef handle = make_completion();
  std::unique_lock held(handle->mutex);  // ends on its way into the handle's end
  sigmoid.publish(hot, handle);
  core->scheduler().publish_hot();
  wait_until([&] { return !hot.slots.busy(session.instance); });
  hot.waiting.store(true);
  // The last thing in each turn of the serial context is to open gates. When none is to come but that of the
  // scheduler's end, a gate that opens says that this one has come.
  core->call([&] { session.gate.close(); });
  wait_until([&] { return session.gate.is_open(); });
  session.gate.close();
  std::thread closer([&] { core.reset(); });
  wait_until([&] { return session.gate.is_open(); });
  held.unlock();
  closer.join();
  CHECK(handle->status->ok());
  CHECK(sigmoid.right());
}

TEST_CASE("a run that its session's gate refuses keeps its slot until the policy has it, but no memory") {
  for (const bool by_team : {true, false}) {
    CAPTURE(by_team);
    Scene scene;
    REQUIRE(scene.sigmoid.live_bytes() > 0);
    const uint64_t age = scene.hot.slots[scene.slot].age;
    scene.hot.waiting.store(true);
    scene.run(by_team);
    REQUIRE(scene.host.handed_over);
    CHECK(scene.host.at_hand_over->busy);  // so that its session isn't closed
    CHECK(scene.host.at_hand_over->live_bytes == 0);
    CHECK_FALSE(scene.host.at_hand_over->ended);
    CHECK(scene.hot.slots.busy(scene.sigmoid.state->instance));  // the policy empties it
    CHECK_FALSE(scene.host.at_release);
    CHECK(scene.host.places.taken == 1);
    const Invocation& invocation = *scene.host.handed_over;
    CHECK(invocation.left_slot == scene.slot);
    CHECK(invocation.session == scene.sigmoid.state.get());
    CHECK(invocation.completion == scene.handle);
    CHECK(invocation.age == age);
    CHECK(invocation.work);
    // A cancel now finds it nowhere; the policy, which gets it next, looks at the handle.
    CHECK_FALSE(scene.runs.cancel(*scene.handle));
    CHECK(scene.handle->cancelled.load());
  }
}

TEST_CASE("a run gives its slot back, then ends its handle, then looks whether the policy waits") {
  for (const bool by_team : {true, false}) {
    CAPTURE(by_team);
    Scene scene;
    scene.sigmoid.state->gate.open();
    scene.hot.waiting.store(true);
    scene.run(by_team);
    REQUIRE(scene.host.at_release);
    CHECK_FALSE(scene.host.at_release->busy);
    CHECK(scene.host.at_release->ended);
    CHECK(scene.handle->status->ok());
    CHECK(scene.sigmoid.right());
    CHECK(scene.sigmoid.state->gate.close());  // nothing is pinned
    CHECK_FALSE(scene.host.handed_over);
    CHECK_FALSE(scene.hot.waiting.load());
    CHECK(scene.hot.slots.take_idle(scene.sigmoid.state->instance) == scene.slot);
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
