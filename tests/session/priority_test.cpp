// Priority in a runtime, on the order in which reads reach a gated device and on the event log: the slot and the bytes
// kept for critical reads, promotion in the I/O queue, and which prepacks are opened when.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "matrix_chain.h"
#include "ompipe/io/gated_device.h"
#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

constexpr int kWeights = 12;  // three segments
constexpr int kCritical = 8;  // objects of a run's first two segments
constexpr int64_t kSide = 160;
constexpr uint64_t kObjectBytes = kSide * kSide * sizeof(float);

// Two sessions over chains of their own in one runtime whose reads wait for the test: one is prepared, so that all its
// reads are speculative, the other is run.
struct Pair {
  explicit Pair(RuntimeOptions options, const SessionOptions& preparing = {})
      : rig(observed(std::move(options))),
        prepared(rig.open(preparing, matrix_chain(prepared_folder, kWeights, kSide))),
        needed(rig.open({.mode = Mode::on_demand}, matrix_chain(needed_folder, kWeights, kSide))) {
    context.inputs = {vector_input("v0", kSide)};
  }
  ~Pair() {
    device.open_all();
    context.outputs.clear();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Each returns when all that can happen before a read completes has happened.
  ExecutionHandle prepare(RuntimeSession& session) { return settled(session.PrepareAsync()); }
  ExecutionHandle run() { return settled(needed.RunAsync(context)); }

  // Of the nth read that reached the device: whether it is of the session that is run, and which object.
  bool is_needed(size_t nth) { return device.started()[nth].file == &file_of(needed, first_read(needed, 0)); }
  plan::ObjectId object(size_t nth) {
    const io::StartedRead read = device.started()[nth];
    plan::ObjectId id = 0;
    while (first_read(is_needed(nth) ? needed : prepared, id).offset != read.offset) ++id;
    return id;
  }
  uint64_t live_bytes() {
    uint64_t bytes = 0;
    for (const auto& [domain, arena] : rig.runtime().figures().arenas) bytes += domain == "mapped" ? 0 : arena.live;
    return bytes;
  }

  const test::TempFolder prepared_folder, needed_folder;
  io::PosixDevice disk;
  io::GatedDevice device{disk};
  Watcher watcher;
  exec::RuntimeContext context;
  Rig rig;
  RuntimeSession &prepared, &needed;

 private:
  static plan::Read first_read(const RuntimeSession& session, plan::ObjectId id) {
    return reads_of(session.plan().objects[size_t(id)]).front();
  }
  RuntimeOptions observed(RuntimeOptions options) {
    options.observer = &watcher;
    options.device = &device;
    return options;
  }
  ExecutionHandle settled(ExecutionHandle handle) {
    settle(rig.runtime());
    return handle;
  }
};

std::vector<Seen> prepacks_of(Watcher& watcher, Priority priority) {
  std::vector<Seen> found;
  for (const Seen& task : watcher.seen()) {
    if (task.kind == TaskKind::prepack && task.effective == priority) found.push_back(task);
  }
  return found;
}

}  // namespace

TEST_SUITE_BEGIN("priority");

TEST_CASE("critical reads take every slot that comes free, and while one is unfinished speculation leaves it one") {
  for (const int slots : {1, 2, 4}) {
    CAPTURE(slots);
    Pair pair({.threads = 2, .io_threads = slots});
    const ExecutionHandle prepared = pair.prepare(pair.prepared);
    size_t started = size_t(slots);
    pair.device.wait_started(started);
    const ExecutionHandle run = pair.run();
    CHECK(pair.device.started().size() == started);  // all of them speculative, submitted before
    for (plan::ObjectId id = 0; id < slots; ++id) {
      open(pair.device, pair.prepared, id);
      pair.device.wait_started(++started);
      CHECK(pair.is_needed(started - 1));
      CHECK(pair.object(started - 1) == id);
    }
    // The first critical read stays in flight. Slots that the others give back, one after the other, go to critical
    // ones, then to speculation.
    for (plan::ObjectId id = 1; slots > 1 && id < kCritical; ++id) {
      open(pair.device, pair.needed, id);
      pair.device.wait_started(++started);
      CHECK(pair.is_needed(started - 1) == (started <= size_t(slots + kCritical)));
    }
    CHECK(pair.device.waiting() == size_t(slots));
    CHECK_FALSE(run.IsReady());
    pair.device.open_all();
    CHECK(run.Wait().ok());
    CHECK(prepared.Wait().ok());
  }
}

TEST_CASE("speculative bytes in flight are bounded, and no bound of theirs holds a critical read back") {
  RuntimeOptions options{.threads = 2, .io_threads = 4};
  options.limits.io_inflight_bytes = kObjectBytes;
  Pair pair(options);
  const ExecutionHandle prepared = pair.prepare(pair.prepared);
  pair.device.wait_started(1);
  const ExecutionHandle run = pair.run();
  pair.device.wait_started(4);
  CHECK(pair.device.waiting() == 4);
  CHECK_FALSE(pair.is_needed(0));
  for (const size_t nth : {1u, 2u, 3u}) CHECK(pair.is_needed(nth));
  pair.device.open_all();
  CHECK(run.Wait().ok());
  CHECK(prepared.Wait().ok());
}

TEST_CASE("the reserve: bytes that speculation leaves free, and a run takes") {
  RuntimeOptions options{.threads = 2, .io_threads = 2};
  MemoryLimits& limits = options.limits;
  limits.global_bytes = 32 * kObjectBytes;
  limits.critical_reserve_bytes = 20 * kObjectBytes;
  Pair pair(options, {.fill_to_limit = true});
  const ExecutionHandle prepared = pair.prepare(pair.prepared);
  const uint64_t speculative = pair.live_bytes(), open_to_all = limits.global_bytes - limits.critical_reserve_bytes;
  CHECK(speculative <= open_to_all);
  CHECK(speculative + 2 * kObjectBytes > open_to_all);  // an object and its staging more would be too much
  const ExecutionHandle run = pair.run();
  CHECK(pair.live_bytes() >= speculative + 2 * kCritical * kObjectBytes);
  CHECK(pair.live_bytes() <= limits.global_bytes);
  pair.device.open_all();
  CHECK(run.Wait().ok());
  CHECK(prepared.Wait().ok());
}

TEST_CASE("a prefetch that a run needs overtakes in the I/O queue") {
  Pair pair({.threads = 2, .io_threads = 1});
  const ExecutionHandle prepared = pair.prepare(pair.prepared);
  pair.device.wait_started(1);
  const ExecutionHandle other = pair.prepare(pair.needed);
  const ExecutionHandle run = pair.run();
  for (size_t nth = 1; nth <= kCritical; ++nth) {
    pair.device.open_next();
    pair.device.wait_started(nth + 1);
    CHECK(pair.is_needed(nth));
    CHECK(pair.object(nth) == plan::ObjectId(nth - 1));
  }
  pair.device.open_all();
  CHECK(run.Wait().ok());
  CHECK(other.Wait().ok());
  CHECK(prepared.Wait().ok());
  const std::vector<Seen> inherited = prepacks_of(pair.watcher, Priority::critical);
  CHECK(inherited.size() >= kCritical);
  for (const Seen& prepack : inherited) CHECK(prepack.original == Priority::prefetch);
}

// The serial context is held at its first read until all others have arrived: then it has everything to choose from.
TEST_CASE("at most T + 1 prepacks are opened; critical ones go first, and nothing speculative overtakes them") {
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    Pair pair({.threads = threads, .io_threads = 2});
    pair.watcher.gate = [&](const TaskEvent& event) {
      if (event.kind != TaskKind::read) return;
      pair.device.open_all();
      pair.device.wait_started(kWeights + kCritical);
    };
    const ExecutionHandle run = pair.run();
    const ExecutionHandle prepared = pair.prepare(pair.prepared);
    open(pair.device, pair.needed, 0);
    CHECK(run.Wait().ok());
    CHECK(prepared.Wait().ok());
    const std::vector<Seen> critical = prepacks_of(pair.watcher, Priority::critical);
    const std::vector<Seen> speculative = prepacks_of(pair.watcher, Priority::prefetch);
    REQUIRE(critical.size() == kWeights);
    REQUIRE(speculative.size() == kWeights);
    std::vector<Seen> all = critical;
    all.insert(all.end(), speculative.begin(), speculative.end());
    for (const Seen& one : all) {
      const auto opened = std::count_if(all.begin(), all.end(), [&](const Seen& other) {
        return other.queued_ns <= one.queued_ns && other.end_ns > one.queued_ns;
      });
      CHECK(opened <= threads + 1);
    }
    for (const Seen& guess : speculative) {
      for (const Seen& needed : critical) {
        if (needed.object >= kCritical) continue;
        CHECK(needed.queued_ns < guess.queued_ns);
        if (threads == 1) CHECK(needed.start_ns < guess.start_ns);
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
