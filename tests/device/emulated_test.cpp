// The emulated accelerator: results with the CPU's bits, order, bounds, and transfers that take their time.
#include "ompipe/device/emulated.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "ompipe/device/gated.h"

namespace ompipe::device {

namespace {

// Keeps every event, and lets a test wait for a number of them.
class Sink : public EventSink {
 public:
  void ended(Event event) noexcept override {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  std::vector<Event> wait(size_t count) {
    MutexLock lock(mutex_);
    while (events_.size() < count) changed_.wait(mutex_);
    return events_;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Event> events_ OMPIPE_GUARDED_BY(mutex_);
};

class Open {
 public:
  explicit Open(Backend& backend) : backend_(backend) { REQUIRE(backend.open(sink).ok()); }
  ~Open() { backend_.close(); }
  Sink sink;

 private:
  Backend& backend_;
};

kernels::PackedLayout layout_of(int64_t k, int64_t n) {
  kernels::MatMulSpec spec;
  spec.k = k;
  spec.n = n;
  const auto layout = kernels::make_layout(spec, kernels::best_isa());
  REQUIRE(layout.has_value());
  return *layout;
}

std::vector<float> numbers(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = float(int(i * 7919 % 201) - 100) * step;
  return values;
}

const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

}  // namespace

TEST_SUITE_BEGIN("emulated");

TEST_CASE("uploaded source, packed there, multiplied there, read back: the CPU's bits") {
  constexpr int64_t kM = 3, kK = 37, kN = 29;
  const kernels::PackedLayout layout = layout_of(kK, kN);
  const std::vector<float> a = numbers(kM * kK, 0.25f), b = numbers(kK * kN, 0.125f);

  std::vector<std::byte> packed(size_t(layout.packed_bytes) + kernels::kAlignmentBytes);
  auto* const aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(packed.data()) + 63) / 64 * 64);
  kernels::pack_range(layout, {bytes_of(b), nullptr, nullptr}, 0, layout.source_bytes, aligned);
  std::vector<float> expected(kM * kN), found(kM * kN);
  kernels::MatMulArgs arguments;
  arguments.layout = &layout;
  arguments.packed = aligned;
  arguments.m = kM;
  arguments.a = a.data();
  arguments.lda = kK;
  arguments.out = expected.data();
  arguments.ldc = kN;
  const kernels::TiledCall call = kernels::matmul_call(arguments);
  std::vector<std::byte> scratch(call.tile_scratch_bytes + 64);
  kernels::run_serially(call,
                        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));

  EmulatedBackend backend({});
  Open open(backend);
  std::vector<std::pair<Address, uint64_t>> held;
  const auto take = [&](uint64_t bytes) {
    const Result<Address> address = backend.allocate(bytes);
    REQUIRE(address.ok());
    held.emplace_back(*address, bytes);
    return *address;
  };
  const Address source = take(b.size() * 4), there = take(uint64_t(layout.packed_bytes)), in = take(a.size() * 4),
                out = take(found.size() * 4), workspace = take(backend.workspace_bytes(layout, kM) + 64);
  Batch batch{.id = 7, .commands = {}};
  batch.commands.emplace_back(Upload{bytes_of(b), source, b.size() * 4});
  batch.commands.emplace_back(Pack{&layout, source, Address::none, Address::none, there});
  batch.commands.emplace_back(Upload{bytes_of(a), in, a.size() * 4});
  batch.commands.emplace_back(Product{&layout, there, in, out, workspace, kM});
  batch.commands.emplace_back(Readback{out, reinterpret_cast<std::byte*>(found.data()), found.size() * 4});
  REQUIRE(backend.submit(std::move(batch)));
  const std::vector<Event> events = open.sink.wait(1);
  CHECK(events[0].id == 7);
  CHECK_FALSE(events[0].error.has_value());
  CHECK(std::memcmp(found.data(), expected.data(), found.size() * 4) == 0);
  for (const auto& [address, bytes] : held) backend.free(address, bytes);
}

TEST_CASE("batches end in the order of submission, each once, and close waits for the last") {
  EmulatedBackend backend({.batches = 64});
  Sink sink;
  REQUIRE(backend.open(sink).ok());
  for (uint64_t id = 0; id < 64; ++id) REQUIRE(backend.submit({.id = id, .commands = {}}));
  backend.close();
  const std::vector<Event> events = sink.wait(64);
  REQUIRE(events.size() == 64);
  for (uint64_t id = 0; id < 64; ++id) CHECK(events[id].id == id);
}

TEST_CASE("a full queue refuses and takes again when an event has been told") {
  EmulatedBackend inner({.batches = 2});
  GatedBackend backend(inner);
  Open open(backend);
  CHECK(backend.submit({.id = 1, .commands = {}}));
  CHECK(backend.submit({.id = 2, .commands = {}}));
  CHECK_FALSE(backend.submit({.id = 3, .commands = {}}));
  backend.open_next();
  open.sink.wait(1);
  CHECK(backend.submit({.id = 3, .commands = {}}));
  backend.fail_next({.reason = "lost"});
  CHECK(open.sink.wait(2)[1].error->reason == "lost");
  backend.open_all();
  CHECK(open.sink.wait(3)[2].id == 3);
}

TEST_CASE("a transfer takes its latency and its bytes' time at least") {
  EmulatedBackend backend({.bytes_per_second = 1u << 30, .latency_ns = 1'000'000});
  Open open(backend);
  const std::vector<float> values = numbers(1u << 18, 1);
  const Address there = *backend.allocate(values.size() * 4);
  Batch batch{.id = 1, .commands = {}};
  batch.commands.emplace_back(Upload{bytes_of(values), there, values.size() * 4});
  REQUIRE(backend.submit(std::move(batch)));
  const Event event = open.sink.wait(1)[0];
  CHECK(event.end_ns - event.start_ns >= 1'000'000 + 976'562);  // 1 MiB at 1 GiB a second
  backend.free(there, values.size() * 4);
}

TEST_SUITE_END();

}  // namespace ompipe::device
