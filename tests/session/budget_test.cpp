// Budgets: no arena's peak exceeds its limit, down to the smallest that fits; one byte less is refused before any read.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

constexpr int kSteps = 2;

// What a run needs at least, as a refusal states it. The total may be less than the sum: one gang has the largest
// prepared bytes, another the largest staging.
struct Need {
  uint64_t total = 0, prepared = 0, staging = 0, execution = 0, outputs = 0;
};

Need need_of(const Error& refusal) {
  unsigned long long total, prepared, staging, execution, outputs;
  REQUIRE(std::sscanf(refusal.reason.c_str(), "%llu bytes of all domains together", &total) == 1);
  const size_t at = refusal.reason.find("(largest gang");
  REQUIRE(at != std::string::npos);
  REQUIRE(std::sscanf(refusal.reason.c_str() + at,
                      "(largest gang: prepared %llu, staging %llu; execution %llu; outputs %llu)", &prepared, &staging,
                      &execution, &outputs) == 4);
  return {total, prepared, staging, execution, outputs};
}

// The global limit below which the session isn't opened, as the refusal states it.
uint64_t least_to_open(const RuntimeOptions& options, const SessionOptions& session_options) {
  RuntimeOptions tiny = options;
  tiny.limits.global_bytes = 1;
  Rig rig(tiny);
  const Status refused = rig.try_open(session_options);
  REQUIRE_FALSE(refused.ok());
  REQUIRE(refused.error().kind == ErrorKind::cannot_fit);
  REQUIRE(refused.error().phase == "open");
  const Need need = need_of(refused.error());
  CHECK(need.execution + need.outputs == 0);
  return need.total;
}

// The largest over the prompt's step and the last one.
Need smallest(const RuntimeOptions& options, const SessionOptions& session_options, const Tokens& prompt = kPrompt) {
  RuntimeOptions tiny = options;
  tiny.limits.global_bytes = least_to_open(options, session_options);
  Rig rig(tiny);
  RuntimeSession& session = rig.open(session_options);
  Need need;
  for (const auto& [past, ids] : {std::pair<int64_t, Tokens>{0, prompt}, {int64_t(prompt.size()) + kSteps - 2, {1}}}) {
    Decoder decoder(session, int64_t(prompt.size()) + kSteps);
    decoder.pretend_length(past);
    decoder.feed(ids);
    const Status status = session.Run(decoder.context);
    REQUIRE_FALSE(status.ok());
    REQUIRE(status.error().kind == ErrorKind::cannot_fit);
    const Need step = need_of(status.error());
    need = {std::max(need.total, step.total), std::max(need.prepared, step.prepared),
            std::max(need.staging, step.staging), std::max(need.execution, step.execution),
            std::max(need.outputs, step.outputs)};
  }
  return need;
}

const Decoded& expected() {
  static Decoded result;
  if (!result.tokens.empty()) return result;
  Rig rig({.threads = 2});
  return result = *decode(rig.open(), kSteps);
}

MemoryLimits exactly(const Need& need) {
  return {.global_bytes = need.total,
          .preparation_bytes = need.staging,
          .prepared_bytes = need.prepared,
          .execution_bytes = need.execution,
          .io_bytes = need.outputs};
}

// Runs within limits; the rig checks every peak against its limit at its end.
void check_within(const RuntimeOptions& options, const SessionOptions& session_options) {
  Rig rig(options);
  const Result<Decoded> decoded = decode(rig.open(session_options), kSteps);
  REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? "" : decoded.error().message()));
  CHECK(*decoded == expected());
  CHECK(rig.runtime().figures().global_peak_bytes <= options.limits.global_bytes);
}

RuntimeOptions runtime_for(const std::string& scheduler) { return {.scheduler = scheduler, .threads = 2}; }

}  // namespace

TEST_SUITE_BEGIN("budget");

TEST_CASE("the smallest budget, of each domain and of all together") {
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    RuntimeOptions options = runtime_for(scheduler);
    const Need need = smallest(options, {});
    options.limits = exactly(need);
    check_within(options, {});
    options.limits = {.global_bytes = need.total};
    check_within(options, {});
  }
}

// A plan's segments are cut at the limit of resident bytes.
uint64_t least_prepared() {
  RuntimeOptions tiny = runtime_for("omp-tasks");
  tiny.limits.prepared_bytes = 1;
  Rig rig(tiny);
  const Status refused = rig.try_open();
  REQUIRE_FALSE(refused.ok());
  unsigned long long least = 0;
  REQUIRE(std::sscanf(refused.error().reason.c_str(), "%llu bytes of prepared", &least) == 1);
  return least;
}

TEST_CASE("at a quarter of its packed bytes, and at the least, the same tokens") {
  uint64_t packed = 0;
  {
    Rig rig(runtime_for("sequential"));
    packed = rig.open().plan().packed_bytes;
  }
  const uint64_t least = least_prepared();
  REQUIRE(least < packed / 4);
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    for (const uint64_t limit : {packed / 4, least}) {
      RuntimeOptions options = runtime_for(scheduler);
      options.limits.prepared_bytes = limit;
      check_within(options, {});
    }
  }
}

TEST_CASE("one byte less is refused before any read, with the numbers") {
  const Need need = smallest(runtime_for("omp-tasks"), {});
  for (uint64_t MemoryLimits::* field :
       {&MemoryLimits::global_bytes, &MemoryLimits::preparation_bytes, &MemoryLimits::prepared_bytes,
        &MemoryLimits::execution_bytes, &MemoryLimits::io_bytes}) {
    io::PosixDevice device;
    RuntimeOptions options = runtime_for("omp-tasks");
    options.device = &device;
    options.limits = exactly(need);
    // A smaller limit of resident bytes cuts the segments, down to its own least.
    if (field == &MemoryLimits::prepared_bytes) options.limits.prepared_bytes = least_prepared();
    options.limits.*field -= 1;
    Rig rig(options);
    Status refused = rig.try_open();
    if (refused.ok()) refused = Status(decode(rig.session(), kSteps).error());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::cannot_fit);
    CHECK(refused.error().message().find(std::to_string(options.limits.*field)) != std::string::npos);
    const bool of_gang = field == &MemoryLimits::preparation_bytes || field == &MemoryLimits::prepared_bytes;
    CHECK((refused.error().phase == "open") == of_gang);
    CHECK(device.counts().calls == 0);
  }
}

TEST_CASE("eager: the whole or a refusal before any read; filled to the limit it runs in what there is") {
  io::PosixDevice device;
  RuntimeOptions options = runtime_for("omp-tasks");
  options.device = &device;
  const Need need = smallest(runtime_for("omp-tasks"), {});
  options.limits.prepared_bytes = 2 * need.prepared;
  {
    Rig rig(options);
    RuntimeSession& session = rig.open({.mode = Mode::eager});
    REQUIRE(session.plan().packed_bytes > options.limits.prepared_bytes);
    const Status status = session.Prepare();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::cannot_fit);
    CHECK(device.counts().calls == 0);
  }
  Rig rig(options);
  RuntimeSession& session = rig.open({.mode = Mode::eager, .fill_to_limit = true});
  CHECK(session.Prepare().ok());
  const auto objects = session.objects();
  CHECK(std::any_of(objects.begin(), objects.end(), [](const ObjectFigures& o) { return o.state == "resident"; }));
  CHECK(std::any_of(objects.begin(), objects.end(), [](const ObjectFigures& o) { return o.state == "absent"; }));
  const Result<Decoded> decoded = decode(session, kSteps);
  REQUIRE(decoded.ok());
  CHECK(*decoded == expected());
}

TEST_CASE("what arenas of blocks keep for the next use is bounded by one option, for all three") {
  const std::vector<std::string> blocks{"preparation", "execution", "io"};
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    for (const uint64_t cap : {kUnlimited, uint64_t(512) << 10, uint64_t(0)}) {
      CAPTURE(cap);
      RuntimeOptions options = runtime_for(scheduler);
      options.limits.retained_bytes = cap;
      Rig rig(options);
      const Result<Decoded> decoded = decode(rig.open(), kSteps);
      REQUIRE(decoded.ok());
      CHECK(*decoded == expected());
      rig.close();
      for (const std::string& domain : blocks) {
        CAPTURE(domain);
        const DomainFigures figures = rig.runtime().figures().arenas.at(domain);
        CHECK(figures.retained <= cap);
        if (cap == kUnlimited) CHECK(figures.retained > 0);
      }
    }
  }
}

TEST_CASE("two and eight invocations at once in the smallest budget for that many: all finish") {
  const Tokens prompt{5};
  Rig reference({.scheduler = "sequential"});
  const Floats right = decode(reference.open(), 1, prompt)->logits[0];
  struct Case {
    const char* scheduler;
    uint64_t count;
    bool together;  // all live at once, in the room of one gang; or one after the other
  };
  for (const auto& [scheduler, count, together] :
       {Case{"sequential", 2, false}, Case{"sequential", 8, true}, Case{"omp-tasks", 2, true},
        Case{"omp-tasks", 8, false}, Case{"omp-tasks", 8, true}}) {
    CAPTURE(scheduler);
    CAPTURE(count);
    CAPTURE(together);
    RuntimeOptions options = runtime_for(scheduler);
    const Need one = smallest(options, {}, prompt);
    Need need = one;
    need.execution *= together ? count : 1;
    need.outputs *= count;
    need.total += need.execution - one.execution + need.outputs - one.outputs;
    options.limits = exactly(need);
    Rig rig(options);
    RuntimeSession& session = rig.open();
    std::vector<std::unique_ptr<Decoder>> decoders;
    std::vector<ExecutionHandle> runs;
    for (uint64_t i = 0; i < count; ++i) {
      decoders.push_back(std::make_unique<Decoder>(session));
      decoders.back()->feed(prompt);
      runs.push_back(session.RunAsync(decoders.back()->context));
    }
    for (uint64_t i = 0; i < count; ++i) {
      const Status status = runs[i].Wait();
      REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
      CHECK(decoders[i]->take_logits() == right);
    }
  }
}

TEST_CASE("random budgets, from the smallest upwards") {
  const auto property = [&] {
    const auto above = [](uint64_t least) { return least + *rc::gen::inRange<uint64_t>(0, 3) * (least / 4 + 1); };
    const auto sometimes = [&](uint64_t least) { return *rc::gen::inRange(0, 3) ? above(least) : kUnlimited; };
    RuntimeOptions options = runtime_for(*rc::gen::element<std::string>("sequential", "omp-tasks"));
    options.threads = *rc::gen::element(1, 2, 4);
    SessionOptions session;
    session.mode = *rc::gen::element(Mode::streaming, Mode::on_demand);
    session.read = *rc::gen::element(ReadMode::buffered, ReadMode::direct);
    session.evict_order = *rc::gen::element(EvictOrder::next_use, EvictOrder::lru);
    const Need need = smallest(options, session);
    options.limits.prepared_bytes = sometimes(need.prepared);
    options.limits.preparation_bytes = sometimes(need.staging);
    options.limits.execution_bytes = sometimes(need.execution);
    options.limits.io_bytes = sometimes(need.outputs);
    options.limits.global_bytes = sometimes(need.total);
    check_within(options, session);
  };
  setenv("RC_PARAMS", long_tests() ? "max_success=200" : "max_success=6", 0);  // each case loads a model twice
  CHECK(rc::check(property));
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
