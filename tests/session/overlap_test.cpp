// Overlap, proven by gates in the device: what has happened before a read was allowed to complete.
#include <doctest/doctest.h>

#include <algorithm>

#include "matrix_chain.h"
#include "ompipe/io/gated_device.h"
#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

TEST_SUITE_BEGIN("overlap");

TEST_CASE("the first layer has executed before the last layer's read is allowed to complete") {
  io::PosixDevice disk;
  io::GatedDevice device(disk);
  Watcher watcher;
  Rig rig({.threads = 2, .observer = &watcher, .device = &device});
  RuntimeSession& session = rig.open();
  const plan::PreparedExecutionPlan& plan = session.plan();
  // The last object whose bytes nobody else needs: what the embedding reads, the LM head reads too.
  std::vector<plan::ObjectId> last;
  for (plan::ObjectId id = 0; id < plan::ObjectId(plan.objects.size()); ++id) {
    if (plan.objects[size_t(id)].uses.front() + 2 == plan::SegmentId(plan.segments.size())) last.push_back(id);
  }
  REQUIRE_FALSE(last.empty());
  for (plan::ObjectId id = 0; id < plan::ObjectId(plan.objects.size()); ++id) {
    if (std::find(last.begin(), last.end(), id) == last.end()) open(device, session, id);
  }
  Decoder decoder(session);
  decoder.feed(kPrompt);
  const ExecutionHandle run = session.RunAsync(decoder.context);
  watcher.wait_for([](const Seen& task) { return task.kind == TaskKind::segment && task.segment == 0; });
  for (const Seen& task : watcher.seen()) {
    CHECK(std::find(last.begin(), last.end(), task.object) == last.end());
  }
  CHECK_FALSE(run.IsReady());
  device.open_all();
  CHECK(run.Wait().ok());
  for (const Seen& task : watcher.seen()) {
    if (task.kind == TaskKind::segment && task.segment > 0) CHECK(task.start_ns > 0);
  }
}

// reference/overlapping_loading_and_prepacking.txt, "Concrete three-weight trace".
TEST_CASE("the three-weight trace: two I/O threads, four participants, five events in their order") {
  constexpr int kWeights = 9;
  constexpr int64_t kSide = 160;  // 100 KiB a weight
  const test::TempFolder folder;
  const std::string path = matrix_chain(folder, kWeights, kSide);
  io::PosixDevice disk;
  io::GatedDevice device(disk);
  Watcher watcher;
  // The serial context is held before it learns that W0 has arrived, until a read of W2 has begun: so that read can't
  // have waited for the packing of W0.
  watcher.gate = [&](const TaskEvent& event) {
    if (event.kind == TaskKind::read && event.object == 0) device.wait_started(3);
  };
  Rig rig({.threads = 4, .io_threads = 2, .observer = &watcher, .device = &device});
  RuntimeSession& session = rig.open({}, path);
  const plan::PreparedExecutionPlan& plan = session.plan();
  REQUIRE(plan.objects.size() == kWeights);
  REQUIRE(plan.segments.size() == 3);
  const auto began = [&](size_t nth, plan::ObjectId id) {
    return device.started()[nth].offset == reads_of(plan.objects[size_t(id)]).front().offset;
  };
  const auto is = [](TaskKind kind, plan::ObjectId object) {
    return [=](const Seen& task) { return task.kind == kind && task.object == object; };
  };

  const ExecutionHandle prepared = session.PrepareAsync();
  // 1. Reads of W0 and W1 are admitted, no third one: there are two I/O threads.
  device.wait_started(2);
  settle(rig.runtime());
  CHECK(device.started().size() == 2);
  CHECK(((began(0, 0) && began(1, 1)) || (began(0, 1) && began(1, 0))));
  // 2. The end of W0's read makes its prepack ready, and nothing else; W1's read has not ended.
  open(device, session, 0);
  watcher.wait_for(is(TaskKind::prepack, 0));
  settle(rig.runtime());
  for (const Seen& task : watcher.seen()) CHECK(task.object == 0);
  // 3. The released slot has started W2's read, before W0 was packed (the watcher's gate).
  CHECK(device.started().size() == 3);
  CHECK(began(2, 2));
  // 4. W0 is published after its packing is complete. No segment has seen anything.
  watcher.wait_for(is(TaskKind::publish, 0));
  uint64_t packed_ns = 0;
  for (const Seen& task : watcher.seen()) {
    if (task.kind == TaskKind::prepack) packed_ns = task.end_ns;
    if (task.kind == TaskKind::publish) CHECK(task.start_ns >= packed_ns);
    CHECK(task.kind != TaskKind::segment);
  }
  // 5. An inference makes the chains that it waits for critical, not those of weights further on.
  exec::RuntimeContext context;
  context.inputs = {vector_input("v0", kSide)};
  const ExecutionHandle run = session.RunAsync(context);
  settle(rig.runtime());
  for (plan::ObjectId id = 0; id < kWeights; ++id) {
    if (id != 3) open(device, session, id);  // W3 keeps the first segment, and with it the window, where it is
  }
  watcher.wait_for(is(TaskKind::publish, kWeights - 1));
  for (const Seen& task : watcher.seen()) {
    if (task.kind == TaskKind::segment) continue;
    CHECK(task.original == Priority::prefetch);
    if (task.object == 1 || task.object == 2) CHECK(task.effective == Priority::critical);
    if (task.object == kWeights - 1) CHECK(task.effective == Priority::prefetch);
  }
  CHECK_FALSE(run.IsReady());
  device.open_all();
  CHECK(run.Wait().ok());
  CHECK(prepared.Wait().ok());
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
