// How a hot run ends on the thread that ran it: what it may still touch, and in which order it gives things back.
// Sessions and slots are made by hand, so that a thread can be held where no caller could hold it.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <mutex>
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

 private:
  const int workers_;
  std::array<float, 2> x_{0.0f, 1.0f};
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

TEST_SUITE_END();

}  // namespace ompipe::session::testing
