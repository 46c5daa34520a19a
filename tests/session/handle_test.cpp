// Handles and lifetimes: waiting, moving, cancelling, and destruction in every order.
#include <doctest/doctest.h>
#include <errno.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "ompipe/io/faulty_device.h"
#include "ompipe/io/gated_device.h"
#include "ompipe/io/posix_device.h"
#include "ompipe/schedule/limits.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

const Floats& expected() {
  static Floats logits;
  if (!logits.empty()) return logits;
  Rig rig({.threads = 2});
  return logits = decode(rig.open(), 1)->logits[0];
}

Floats last_row(const exec::Tensor& logits) {
  const float* const all = logits.read<float>();
  return Floats(all + logits.elements() - logits.dim(-1), all + logits.elements());
}

// The error of Run, after that of RunAsync and Wait was found to be the same.
Error same_error(RuntimeSession& session) {
  Decoder first(session), second(session);
  first.feed(kPrompt);
  second.feed(kPrompt);
  const Status run = session.Run(first.context);
  const Status waited = session.RunAsync(second.context).Wait();
  REQUIRE_FALSE(run.ok());
  REQUIRE_FALSE(waited.ok());
  CHECK(run.error().kind == waited.error().kind);
  CHECK(run.error().message() == waited.error().message());
  CHECK(first.length() == 0);
  CHECK(second.length() == 0);
  return run.error();
}

// A device whose gates open before whatever uses it is closed.
struct Gates {
  io::PosixDevice disk;
  io::GatedDevice device{disk};
};

}  // namespace

TEST_SUITE_BEGIN("handle");

TEST_CASE("many threads wait for one handle; ready only at the end; diagnostics after it") {
  Gates gates;
  Rig rig({.threads = 2, .device = &gates.device});
  RuntimeSession& session = rig.open();
  Decoder decoder(session);
  decoder.feed(kPrompt);
  const ExecutionHandle run = session.RunAsync(decoder.context);
  gates.device.wait_started(1);
  CHECK_FALSE(run.IsReady());
  std::atomic<int> succeeded{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 6; ++i) waiters.emplace_back([&] { succeeded += run.Wait().ok(); });
  gates.device.open_all();
  for (std::thread& waiter : waiters) waiter.join();
  CHECK(succeeded == 6);
  CHECK(run.IsReady());
  CHECK_FALSE(run.diagnostics().hot);
  CHECK(run.diagnostics().failed_task.empty());
  CHECK(run.diagnostics().segment_wait_s.size() == session.plan().segments.size());
  CHECK(decoder.take_logits() == expected());
}

TEST_CASE("moving: the source is empty, an assigned handle waits for what it held") {
  Gates gates;
  Rig rig({.threads = 2, .device = &gates.device});
  RuntimeSession& session = rig.open();
  Decoder first(session), second(session);
  first.feed(kPrompt);
  second.feed(kPrompt);
  ExecutionHandle a = session.RunAsync(first.context);
  ExecutionHandle b = session.RunAsync(second.context);
  ExecutionHandle moved = std::move(b);
  CHECK_FALSE(b.valid());
  CHECK(moved.valid());
  gates.device.open_all();
  a = std::move(moved);  // waits for the first run
  CHECK(first.take_logits() == expected());
  CHECK(a.Wait().ok());
  CHECK(second.take_logits() == expected());
}

TEST_CASE("a destroyed handle has waited: its context is the caller's again") {
  Rig rig({.threads = 2});
  RuntimeSession& session = rig.open();
  for (int i = 0; i < 3; ++i) {
    Decoder decoder(session);
    decoder.feed(kPrompt);
    session.RunAsync(decoder.context);
    CHECK(decoder.take_logits() == expected());
  }
}

TEST_CASE("cancel while reads are in flight: terminal before any of them returns; who shares them is not") {
  Gates gates;
  Rig rig({.threads = 2, .device = &gates.device});
  RuntimeSession& session = rig.open();
  Decoder first(session), second(session);
  first.feed(kPrompt);
  second.feed(kPrompt);
  ExecutionHandle cancelled = session.RunAsync(first.context);
  const ExecutionHandle other = session.RunAsync(second.context);
  gates.device.wait_started(2);
  cancelled.Cancel();
  REQUIRE_FALSE(cancelled.Wait().ok());
  CHECK(cancelled.Wait().error().kind == ErrorKind::cancelled);
  CHECK(cancelled.diagnostics().cancel_s > 0);
  CHECK(first.length() == 0);
  CHECK_FALSE(other.IsReady());
  gates.device.open_all();
  CHECK(other.Wait().ok());
  CHECK(other.diagnostics().cancel_s == 0);
  CHECK(second.take_logits() == expected());
  cancelled.Cancel();  // nothing happens
  CHECK(decode(session, 1)->logits[0] == expected());
}

TEST_CASE("a load that nobody wants any more: what is queued is never read, what arrives is not packed") {
  Gates gates;
  Watcher watcher;
  Rig rig({.threads = 2, .io_threads = 2, .observer = &watcher, .device = &gates.device});
  RuntimeSession& session = rig.open();
  for (const bool prepares : {false, true}) {
    CAPTURE(prepares);
    const size_t before = gates.device.started().size();
    Decoder decoder(session);
    decoder.feed(kPrompt);
    ExecutionHandle handle = prepares ? session.PrepareAsync() : session.RunAsync(decoder.context);
    gates.device.wait_started(before + 2);
    handle.Cancel();
    CHECK(handle.Wait().error().kind == ErrorKind::cancelled);
    for (const ObjectFigures& object : session.objects()) CHECK(object.state != "resident");
    while (gates.device.waiting() > 0) gates.device.open_next();
    rig.runtime().figures();
    CHECK(gates.device.started().size() == before + 2);
    // Everything is absent again once the no-ops have run: a session that closes waits for them.
  }
  rig.close();
  CHECK(rig.runtime().audit().ok());
  for (const Seen& task : watcher.seen()) CHECK(task.kind == TaskKind::read);
  gates.device.open_all();
  CHECK(decode(rig.open(), 1)->logits[0] == expected());
}

TEST_CASE("cancel before it could start: terminal while everything else stands still") {
  Gates gates;
  RuntimeOptions options{.threads = 2, .device = &gates.device};
  options.limits.execution_bytes = 16u << 20;
  Rig rig(options);
  RuntimeSession& session = rig.open();
  std::vector<std::unique_ptr<Decoder>> decoders;
  std::vector<ExecutionHandle> runs;
  for (int i = 0; i < schedule::kMaxSlots + 1; ++i) {
    decoders.push_back(std::make_unique<Decoder>(session));
    decoders.back()->feed(kPrompt);
    runs.push_back(session.RunAsync(decoders.back()->context));
  }
  gates.device.wait_started(1);
  runs.back().Cancel();
  CHECK(runs.back().Wait().error().kind == ErrorKind::cancelled);
  CHECK_FALSE(runs.front().IsReady());
  gates.device.open_all();
  for (size_t i = 0; i + 1 < runs.size(); ++i) CHECK(runs[i].Wait().ok());
}

TEST_CASE("a run that is not to wait for a slot is refused through its handle; the others go on") {
  Gates gates;
  Rig rig({.threads = 2, .device = &gates.device});
  RuntimeSession& session = rig.open();
  std::vector<std::unique_ptr<Decoder>> decoders;
  std::vector<ExecutionHandle> runs;
  const auto start = [&](const RunOptions& options) {
    decoders.push_back(std::make_unique<Decoder>(session));
    decoders.back()->feed(kPrompt);
    runs.push_back(session.RunAsync(decoders.back()->context, options));
  };
  for (int i = 0; i < schedule::kMaxSlots; ++i) start({.refuse_without_slot = true});
  start({.refuse_without_slot = true});
  const Status refused = runs.back().Wait();
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::busy);
  CHECK(refused.error().message().find("all 8 invocation slots are taken") != std::string::npos);
  CHECK(decoders.back()->length() == 0);
  CHECK(session.Run(decoders.back()->context, {.refuse_without_slot = true}).error().kind == ErrorKind::busy);
  runs.pop_back();
  start({});  // pending
  for (const ExecutionHandle& run : runs) CHECK_FALSE(run.IsReady());
  gates.device.open_all();
  for (const ExecutionHandle& run : runs) CHECK(run.Wait().ok());
  const size_t refused_one = size_t(schedule::kMaxSlots);
  for (size_t i = 0; i < decoders.size(); ++i) {
    if (i != refused_one) CHECK(decoders[i]->take_logits() == expected());
  }
}

TEST_CASE("cancel a preparation; the run that needs its objects goes on") {
  Gates gates;
  Rig rig({.threads = 2, .device = &gates.device});
  RuntimeSession& session = rig.open();
  ExecutionHandle prepared = session.PrepareAsync();
  Decoder decoder(session);
  decoder.feed(kPrompt);
  const ExecutionHandle run = session.RunAsync(decoder.context);
  gates.device.wait_started(1);
  prepared.Cancel();
  CHECK(prepared.Wait().error().kind == ErrorKind::cancelled);
  gates.device.open_all();
  CHECK(run.Wait().ok());
  CHECK(decoder.take_logits() == expected());
}

TEST_CASE("a cancel at any moment ends the run, one way or the other") {
  Rig rig({.threads = 2});
  for (int i = 0; i < 12; ++i) {
    RuntimeSession& session = rig.open();
    Decoder decoder(session);
    decoder.feed(kPrompt);
    ExecutionHandle run = session.RunAsync(decoder.context);
    for (int turn = 0; turn < i * 60; ++turn) std::this_thread::yield();
    run.Cancel();
    const Status status = run.Wait();
    if (status.ok()) {
      CHECK(decoder.take_logits() == expected());
    } else {
      CHECK(status.error().kind == ErrorKind::cancelled);
    }
    CHECK(decode(session, 1)->logits[0] == expected());
    run = {};
    rig.close();
  }
}

TEST_CASE("Run is RunAsync and Wait: the same values, and the same errors") {
  Rig rig({.threads = 2});
  RuntimeSession& session = rig.open();
  Decoder first(session), second(session);
  first.feed(kPrompt);
  second.feed(kPrompt);
  CHECK(session.Run(first.context).ok());
  CHECK(session.RunAsync(second.context).Wait().ok());
  CHECK(first.take_logits() == second.take_logits());
  exec::RuntimeContext empty;
  CHECK(session.Run(empty).error().message() == session.RunAsync(empty).Wait().error().message());
}

// One thread, and everything one after the other: which of several errors is the first doesn't depend on timing.
TEST_CASE("Run fails as RunAsync and Wait do: a read, a digest, a limit") {
  SUBCASE("a read that fails") {
    io::PosixDevice disk;
    io::FaultyDevice device(disk, {.io_error = 1}, 1);
    Rig rig({.scheduler = "sequential", .device = &device});
    const Error error = same_error(rig.open({.mode = Mode::on_demand}));
    CHECK(error.phase == "read");
    CHECK(error.errno_value == EIO);
  }
  SUBCASE("bytes that aren't those of the digest") {
    const ModelCopy copy;
    const auto offset_of_weight = [&] {
      Rig rig({.scheduler = "sequential"});
      const auto& objects = rig.open({.mode = Mode::on_demand}, copy.model()).plan().objects;
      const auto packed = std::find_if(objects.begin(), objects.end(), [](const auto& object) {
        return object.kind == plan::ObjectKind::packed_matmul;
      });
      REQUIRE(packed != objects.end());
      return packed->chunks[0].reads[0].offset;
    };
    copy.flip(offset_of_weight() + 1234);
    Rig rig({.scheduler = "sequential"});
    CHECK(same_error(rig.open({.mode = Mode::on_demand}, copy.model())).phase == "digest");
  }
  SUBCASE("a limit that no run keeps to") {
    RuntimeOptions options{.scheduler = "sequential"};
    options.limits.execution_bytes = 1;
    Rig rig(options);
    CHECK(same_error(rig.open()).kind == ErrorKind::cannot_fit);
  }
}

TEST_CASE("outputs outlive session, handle and runtime") {
  exec::RuntimeContext context;
  {
    Result<std::shared_ptr<Runtime>> runtime = Runtime::open({.threads = 2});
    REQUIRE(runtime.ok());
    Result<std::unique_ptr<RuntimeSession>> session = RuntimeSession::open(*runtime, model_path(), {});
    REQUIRE(session.ok());
    Decoder decoder(**session);
    decoder.feed(kPrompt);
    ExecutionHandle run = (*session)->RunAsync(decoder.context);
    session->reset();  // waits for the run
    *runtime = nullptr;
    CHECK(run.Wait().ok());
    context = std::move(decoder.context);
  }
  CHECK(last_row(context.outputs.front().tensor.view) == expected());
}

// Also while the run is on its way: then it has no outputs yet, and whoever must wait for it does.
TEST_CASE("handle, session, runtime, context and outputs are destroyed in every order") {
  enum class Part { handle, session, runtime, context, outputs };
  for (const bool ended : {true, false}) {
    CAPTURE(ended);
    std::vector<Part> order{Part::handle, Part::session, Part::runtime, Part::context};
    if (ended) order.push_back(Part::outputs);
    do {
      Result<std::shared_ptr<Runtime>> runtime = Runtime::open({.threads = 1});
      REQUIRE(runtime.ok());
      Result<std::unique_ptr<RuntimeSession>> session = RuntimeSession::open(*runtime, model_path(), {});
      REQUIRE(session.ok());
      Decoder decoder(**session);
      decoder.feed(kPrompt);
      auto context = std::make_shared<exec::RuntimeContext>(std::move(decoder.context));
      ExecutionHandle run = (*session)->RunAsync(context);
      if (ended) CHECK(run.Wait().ok());
      auto outputs = ended ? context->outputs : decltype(context->outputs){};
      for (const Part part : order) {
        if (part == Part::handle) run = {};
        if (part == Part::session) session->reset();
        if (part == Part::runtime) *runtime = nullptr;
        if (part == Part::context) context = nullptr;
        if (part == Part::outputs) outputs.clear();
        if (!outputs.empty()) CHECK(last_row(outputs.front().tensor.view) == expected());
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_CASE("a handle may be the last that knows its session, also one refused or cancelled before it started") {
  for (int i = 0; i < 12; ++i) {
    RuntimeOptions options{.threads = 2};
    if (i % 2) options.limits.execution_bytes = 1;  // a session may be opened, and its runs are refused
    Result<std::shared_ptr<Runtime>> runtime = Runtime::open(options);
    REQUIRE(runtime.ok());
    Result<std::unique_ptr<RuntimeSession>> session = RuntimeSession::open(*runtime, model_path(), {});
    REQUIRE(session.ok());
    Decoder decoder(**session);
    decoder.feed(kPrompt);
    ExecutionHandle run = (*session)->RunAsync(decoder.context);
    *runtime = nullptr;
    run.Cancel();
    session->reset();
    CHECK((run.Wait().ok() || run.Wait().error().kind == ErrorKind::cancelled ||
           run.Wait().error().kind == ErrorKind::cannot_fit));
  }
}

TEST_CASE("a handle keeps the context that it was given to keep, and lets go of it with itself") {
  Rig rig({.threads = 2});
  RuntimeSession& session = rig.open();
  Decoder decoder(session);
  decoder.feed(kPrompt);
  auto context = std::make_shared<exec::RuntimeContext>(decoder.context);
  const std::weak_ptr<exec::RuntimeContext> seen = context;
  ExecutionHandle run = session.RunAsync(std::move(context));
  CHECK(run.Wait().ok());
  REQUIRE_FALSE(seen.expired());
  decoder.context.outputs = seen.lock()->outputs;
  CHECK(decoder.take_logits() == expected());
  ExecutionHandle moved = std::move(run);
  CHECK_FALSE(seen.expired());
  moved = ExecutionHandle();
  CHECK(seen.expired());
}

TEST_CASE("sessions come and go on one runtime; runtimes come and go") {
  Rig rig({.threads = 2});
  for (int i = 0; i < 12; ++i) {
    rig.open({.mode = i % 2 ? Mode::eager : Mode::streaming});
    if (i % 3) CHECK(decode(rig.session(), 1).ok());
    const ExecutionHandle prepared = rig.session().PrepareAsync();
    rig.close();
  }
  for (int i = 0; i < 8; ++i) {
    Rig other({.scheduler = i % 4 ? "omp-tasks" : "sequential", .threads = 1 + i % 3});
    CHECK(decode(other.open(), 1)->logits[0] == expected());
  }
}

TEST_CASE(
    "runtimes open and close, a thousand with OMPIPE_LONG, three at once, with teams of every size; root threads never "
    "pile up") {
  auto threads_of_process = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  std::vector<std::shared_ptr<Runtime>> open(3);
  ptrdiff_t after_first = 0, most = 0;
  for (size_t i = 0; i < (long_tests() ? 1000 : kSanitized ? 50 : 200); ++i) {
    std::shared_ptr<Runtime>& place = open[i % open.size()];
    place = nullptr;
    const Result<std::shared_ptr<Runtime>> runtime = Runtime::open({.threads = 1 + int(i % 4)});
    REQUIRE(runtime.ok());
    place = *runtime;
    if (i % 100 == 0) {
      const Result<std::unique_ptr<RuntimeSession>> session = RuntimeSession::open(place, model_path(), {});
      REQUIRE(session.ok());
      CHECK(decode(**session, 1)->logits[0] == expected());
    }
    (i < 24 ? after_first : most) = std::max(i < 24 ? after_first : most, threads_of_process());
  }
  CHECK(most <= after_first);
}

TEST_CASE("several threads use several sessions of one runtime at once") {
  Rig rig({.threads = 2});
  constexpr int kSessions = 3;
  for (int i = 0; i < kSessions; ++i) rig.open();
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (int i = 0; i < 2 * kSessions; ++i) {
    callers.emplace_back([&, i] {
      const Result<Decoded> decoded = decode(rig.session(size_t(i % kSessions)), 2);
      right += decoded.ok() && decoded->logits[0] == expected();
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(right == 2 * kSessions);
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
