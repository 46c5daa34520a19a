// Sessions whose products run on the emulated device: the CPU's bits by every recipe and scheduler, and the order of
// things by gates.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "ompipe/device/emulated.h"
#include "ompipe/device/gated.h"
#include "rig.h"

namespace ompipe::session::testing {

using device::EmulatedBackend;
using device::GatedBackend;
using plan::DevicePack;
using plan::Recipe;

namespace {

constexpr int kSteps = 2;

Decoded on_cpu(int accuracy_level) {
  Rig rig({.scheduler = "sequential"});
  const Result<Decoded> decoded = decode(rig.open({}, model_path("tiny-int4", accuracy_level)), kSteps);
  REQUIRE(decoded.ok());
  return *decoded;
}

void check(RuntimeOptions runtime, const SessionOptions& options, int accuracy_level = 0,
           const device::EmulatedOptions& device = {}) {
  EmulatedBackend backend(device);
  runtime.backend = &backend;
  Rig rig(runtime);
  RuntimeSession& session = rig.open(options, model_path("tiny-int4", accuracy_level));
  CHECK(session.plan().device_actions > 0);
  if (options.mode == Mode::eager) REQUIRE(session.Prepare().ok());
  const Result<Decoded> decoded = decode(session, kSteps);
  REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? "" : decoded.error().message()));
  CHECK(*decoded == on_cpu(accuracy_level));
  const RuntimeFigures figures = rig.runtime().figures();
  CHECK(figures.device.uploaded_bytes > session.plan().device_bytes / 2);
  CHECK(figures.device.read_back_bytes > 0);
}

Status run_once(RuntimeSession& session) {
  Decoder decoder(session);
  decoder.feed(kPrompt);
  return session.Run(decoder.context);
}

// How many objects of the device are in that state.
size_t there(const RuntimeSession& session, const std::string& state) {
  size_t count = 0;
  const std::vector<ObjectFigures> objects = session.objects();
  for (size_t i = 0; i < objects.size(); ++i)
    count += session.plan().objects[i].recipe != Recipe::on_cpu && objects[i].state == state;
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("device");

TEST_CASE("both recipes, both schedulers, every mode: the CPU's bits") {
  for (const DevicePack pack : {DevicePack::on_cpu, DevicePack::on_device}) {
    CAPTURE(int(pack));
    for (const Mode mode : {Mode::streaming, Mode::eager, Mode::on_demand}) {
      CAPTURE(int(mode));
      check({.scheduler = "sequential"}, {.mode = mode, .device = {.pack = pack}});
      check({.threads = 2}, {.mode = mode, .device = {.pack = pack}}, 4);
    }
    check({.threads = 1}, {.chunk_bytes = 1u << 20, .read = ReadMode::mapped, .device = {.pack = pack}});
    check({.threads = 4, .load_tokens = 8, .publish_tokens = 8}, {.chunk_bytes = 1u << 20, .device = {.pack = pack}});
  }
}

TEST_CASE("a weight for both sides is read once, as if there were no device") {
  const auto read_by = [](Rig& rig, const SessionOptions& options) {
    REQUIRE(rig.open(options).Prepare().ok());
    return rig.runtime().figures().logical_read_bytes;
  };
  Rig alone({.threads = 2});
  const uint64_t once = read_by(alone, {.mode = Mode::eager});
  for (const DevicePack pack : {DevicePack::on_cpu, DevicePack::on_device}) {
    CAPTURE(int(pack));
    EmulatedBackend backend({});
    Rig rig({.threads = 2, .backend = &backend});
    CHECK(read_by(rig, {.mode = Mode::eager, .device = {.pack = pack}}) == once);
    const std::vector<plan::PreparedObject>& objects = rig.session().plan().objects;
    const auto shared = std::count_if(objects.begin(), objects.end(), [](const plan::PreparedObject& object) {
      return object.recipe != Recipe::on_cpu && object.other_side != plan::kNone;
    });
    CHECK(shared > 0);
    CHECK(rig.runtime().figures().device.shared_loads == uint64_t(shared));
  }
}

TEST_CASE("one batch at a time, and a device without a pack kernel") {
  check({.threads = 2}, {.device = {.pack = DevicePack::on_device}}, 0, {.batches = 1});
  EmulatedBackend backend({.packs = false});
  Rig rig({.threads = 1, .backend = &backend});
  const RuntimeSession& session = rig.open({.device = {.pack = DevicePack::on_device}});
  for (const plan::PreparedObject& object : session.plan().objects) CHECK(object.recipe != Recipe::upload_pack);
}

TEST_CASE("an object is visible when its upload has ended, and a compute thread waits for none of it") {
  for (const char* const scheduler : {"omp-tasks", "sequential"}) {
    CAPTURE(scheduler);
    EmulatedBackend inner({});
    GatedBackend backend(inner);
    Rig rig({.scheduler = scheduler, .threads = 1, .backend = &backend});
    RuntimeSession& session = rig.open({.device = {.nodes = {"*"}}});
    Decoder decoder(session);
    decoder.feed(kPrompt);
    ExecutionHandle run = session.RunAsync(decoder.context);
    const std::vector<device::Command> commands = backend.wait_held();
    REQUIRE(commands.size() == 1);
    CHECK(std::holds_alternative<device::Upload>(commands[0]));
    CHECK(there(session, "preparing") >= 1);
    CHECK(there(session, "resident") == 0);
    // The one compute thread serves another session meanwhile, from its weights to its logits.
    RuntimeSession& other = rig.open({.device = {.nodes = {"nothing"}}});
    CHECK(run_once(other).ok());
    CHECK_FALSE(run.IsReady());
    CHECK(there(session, "resident") == 0);
    backend.open_all();
    CHECK(run.Wait().ok());
    CHECK(there(session, "resident") >= 1);
  }
}

TEST_CASE("a failed upload fails the run that needs it; the next one loads the next generation") {
  EmulatedBackend inner({});
  GatedBackend backend(inner);
  Rig rig({.threads = 2, .backend = &backend});
  // Without the head, which is read together with the table, ahead of the segment that needs it.
  RuntimeSession& session = rig.open({.mode = Mode::on_demand, .device = {.nodes = {"layer*"}}});
  Decoder decoder(session);
  decoder.feed(kPrompt);
  ExecutionHandle run = session.RunAsync(decoder.context);
  backend.fail_next({.kind = ErrorKind::environment, .phase = "device", .subject = "emulated:0", .reason = "lost"});
  backend.open_all();
  const Status status = run.Wait();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().reason == "lost");
  const std::string failed = run.diagnostics().failed_task;
  const Result<Decoded> again = decode(session, kSteps);
  REQUIRE(again.ok());
  CHECK(*again == on_cpu(0));
  for (const ObjectFigures& object : session.objects()) {
    CAPTURE(object.name);
    if ("upload " + object.name == failed && !object.key.ends_with("|cpu")) CHECK(object.generation == 2);
  }
  CHECK(failed.starts_with("upload "));
}

TEST_CASE("a weight that the device fails to pack or to take in is packed by the CPU: the same bits, and counted") {
  for (const char* const scheduler : {"omp-tasks", "sequential"}) {
    for (const bool upload : {false, true}) {
      CAPTURE(scheduler);
      CAPTURE(upload);
      EmulatedBackend inner({});
      GatedBackend backend(inner);
      Rig rig({.scheduler = scheduler, .threads = 2, .backend = &backend});
      RuntimeSession& session = rig.open({.device = {.nodes = {"layer*"}, .pack = DevicePack::on_device}});
      Decoder decoder(session, 16);
      decoder.feed(kPrompt);
      ExecutionHandle run = session.RunAsync(decoder.context);
      const auto is_wanted = [&](const device::Command& command) {
        return upload ? std::holds_alternative<device::Upload>(command) : std::holds_alternative<device::Pack>(command);
      };
      while (!is_wanted(backend.wait_held().back())) backend.open_next();
      backend.fail_next({.kind = ErrorKind::environment, .phase = "device", .subject = "emulated:0", .reason = "lost"});
      backend.open_all();
      const Status status = run.Wait();
      REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
      CHECK(decoder.take_logits() == on_cpu(0).logits[0]);
      CHECK(rig.runtime().figures().fallbacks == 1);
      for (const ObjectFigures& object : session.objects()) CHECK(object.generation <= 1);
    }
  }
}

TEST_CASE("in room for some of the weights they come and go on the device alone") {
  for (const DevicePack pack : {DevicePack::on_cpu, DevicePack::on_device}) {
    CAPTURE(int(pack));
    EmulatedBackend backend({});
    uint64_t room = 0;
    {
      Rig rig({.scheduler = "sequential", .backend = &backend});
      const plan::PreparedExecutionPlan& plan = rig.open({.device = {.pack = pack}}).plan();
      room = plan.largest_gang.device_bytes + (plan.device_bytes - plan.largest_gang.device_bytes) / 4 + (1u << 20);
      REQUIRE(room < plan.device_bytes);
    }
    Rig rig({.threads = 2, .limits = {.device_bytes = room}, .backend = &backend});
    RuntimeSession& session = rig.open({.device = {.pack = pack}});
    const Result<Decoded> decoded = decode(session, kSteps);
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? "" : decoded.error().message()));
    CHECK(*decoded == on_cpu(0));
    uint32_t highest = 0;
    const std::vector<ObjectFigures> objects = session.objects();
    for (size_t i = 0; i < objects.size(); ++i) {
      const bool there = session.plan().objects[i].recipe != Recipe::on_cpu;
      if (there) highest = std::max(highest, objects[i].generation);
      if (!there) CHECK(objects[i].generation <= 1);
    }
    CHECK(highest >= 2);
    CHECK(rig.runtime().figures().arenas.at("device").peak <= room);
  }
}

TEST_CASE("keys tell the sides apart, and a node that is refused says why") {
  EmulatedBackend backend({});
  Rig rig({.threads = 1, .backend = &backend});
  const RuntimeSession& session = rig.open({.device = {.nodes = {"*"}}});
  const plan::PreparedExecutionPlan& plan = session.plan();
  std::set<std::string> keys;
  for (const plan::PreparedObject& object : plan.objects) {
    CHECK(keys.insert(object.key).second);
    CHECK(object.key.ends_with(object.recipe == Recipe::on_cpu ? "|cpu" : "|emulated-1"));
  }
  REQUIRE_FALSE(plan.refused.empty());
  for (const plan::Refusal& refusal : plan.refused) CHECK_FALSE(refusal.reason.empty());
  CHECK(plan.refused.size() + size_t(plan.device_actions) >= plan.actions.size());
}

TEST_CASE("cancelled while the device has a segment; the runtime closes cleanly") {
  EmulatedBackend inner({});
  GatedBackend backend(inner);
  Rig rig({.threads = 2, .backend = &backend});
  RuntimeSession& session = rig.open({.mode = Mode::on_demand});
  Decoder decoder(session);
  decoder.feed(kPrompt);
  ExecutionHandle run = session.RunAsync(decoder.context);
  for (;;) {
    const std::vector<device::Command> commands = backend.wait_held();
    if (std::holds_alternative<device::Readback>(commands.back())) break;
    backend.open_next();
  }
  run.Cancel();
  backend.open_all();
  const Status status = run.Wait();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().kind == ErrorKind::cancelled);
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
