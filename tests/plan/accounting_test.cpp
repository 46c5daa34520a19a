// The predicted accounting against what the sequential scheduler measures: the same bytes at every step, the same
// peaks.
#include "ompipe/session/accounting.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "invocation.h"
#include "ompipe/cli/generate.h"
#include "ompipe/plan/print.h"
#include "ompipe/session/observer.h"
#include "ompipe/session/session.h"
#include "runtime_core.h"

TEST_SUITE_BEGIN("accounting");

namespace {

using namespace ompipe;
using namespace ompipe::session;
using arenas::Domain;
using arenas::DomainBytes;
namespace fs = std::filesystem;

constexpr uint64_t kMiB = 1u << 20;

// tiny-int4, written once.
const std::string& tiny_model() {
  struct Folder {
    Folder() {
      std::string name = (fs::temp_directory_path() / "ompipe_accounting_XXXXXX").string();
      REQUIRE(mkdtemp(name.data()) != nullptr);
      path = name;
      REQUIRE(cli::generate_model({.preset = "tiny-int4", .directory = path}).ok());
      model = path + "/model.onnx";
    }
    ~Folder() { fs::remove_all(path); }
    std::string path, model;
  };
  static const Folder folder;
  return folder.model;
}

DomainBytes live_bytes(const arenas::BudgetUsage& usage) {
  DomainBytes bytes;
  for (Domain domain : arenas::kDomains) bytes[domain] = usage[domain].live_bytes;
  return bytes;
}

// What a step of the runtime left behind, looked at in its own serial context.
class Meter : public Observer {
 public:
  void on_task(const TaskEvent& event) noexcept override {
    if (event.kind == TaskKind::evict) evicted_.push_back(event.object);
    if (event.kind != TaskKind::publish && event.kind != TaskKind::segment) return;
    AccountingStep step;
    step.published = event.object;
    step.segment = event.segment;
    step.evicted = std::exchange(evicted_, {});
    step.live_bytes = live_bytes(runtime->core().budget().usage());
    steps.push_back(std::move(step));
  }
  void on_milestone(Milestone, uint64_t) noexcept override {}

  Runtime* runtime = nullptr;
  std::vector<AccountingStep> steps;

 private:
  std::vector<plan::ObjectId> evicted_;
};

std::unique_ptr<cli::Invocation> invocation_of(const std::shared_ptr<const model::ResolvedModel>& model,
                                               int64_t prompt_length) {
  cli::RunCommand run;
  run.choices.prompt_length = prompt_length;
  auto maker = cli::InvocationMaker::make(model, run);
  REQUIRE(maker.ok());
  auto invocation = maker->invocation();
  REQUIRE(invocation.ok());
  REQUIRE((*invocation)->begin_step());
  return std::move(*invocation);
}

struct Case {
  std::string name;
  MemoryLimits limits = {};
  SessionOptions session = {};
  int64_t prompt_length = 3;
  int io_threads = 2;
};

RuntimeOptions options_of(const Case& wanted) {
  RuntimeOptions options;
  options.scheduler = "sequential";
  options.io_threads = wanted.io_threads;
  options.limits = wanted.limits;
  return options;
}

std::unique_ptr<RuntimeSession> open(const std::shared_ptr<Runtime>& runtime, const Case& wanted) {
  auto session = RuntimeSession::open(runtime, tiny_model(), wanted.session);
  REQUIRE_MESSAGE(session.ok(), (session.ok() ? "" : session.error().message()));
  return std::move(*session);
}

Result<Accounting> predict(const plan::PreparedExecutionPlan& plan, const Case& wanted) {
  // The plan is the session's own, which outlives the prediction.
  const std::shared_ptr<const plan::PreparedExecutionPlan> shared(std::shared_ptr<void>(), &plan);
  const auto invocation = invocation_of(plan.model, wanted.prompt_length);
  return predict_accounting(shared, invocation->context, options_of(wanted), wanted.session,
                            wanted.session.mode == Mode::eager);
}

void check_equal(const Case& wanted) {
  CAPTURE(wanted.name);
  Meter meter;
  RuntimeOptions options = options_of(wanted);
  options.observer = &meter;
  auto runtime = Runtime::open(options);
  REQUIRE(runtime.ok());
  meter.runtime = runtime->get();
  {
    const auto session = open(*runtime, wanted);
    const auto invocation = invocation_of(session->plan().model, wanted.prompt_length);
    if (wanted.session.mode == Mode::eager) REQUIRE(session->Prepare().ok());
    const Status ran = session->Run(invocation->context);
    REQUIRE_MESSAGE(ran.ok(), (ran.ok() ? "" : ran.error().message()));
    const RuntimeFigures measured = (*runtime)->figures();  // after everything that the run left behind

    const Result<Accounting> predicted = predict(session->plan(), wanted);
    REQUIRE_MESSAGE(predicted.ok(), (predicted.ok() ? "" : predicted.error().message()));
    REQUIRE(predicted->steps.size() >= meter.steps.size() + 1);
    for (size_t i = 0; i < meter.steps.size(); ++i) {
      CAPTURE(i);
      CHECK(predicted->steps[i].published == meter.steps[i].published);
      CHECK(predicted->steps[i].segment == meter.steps[i].segment);
      CHECK(predicted->steps[i].evicted == meter.steps[i].evicted);
      CHECK(predicted->steps[i].live_bytes == meter.steps[i].live_bytes);
    }
    for (Domain domain : arenas::kDomains) {
      CAPTURE(arenas::domain_name(domain));
      const DomainFigures& figures = measured.arenas.at(arenas::domain_name(domain));
      CHECK(predicted->usage[domain].peak_bytes == figures.peak);
      // A frame that is kept for the next hot run is live where it was measured, and retained where it was predicted.
      const arenas::DomainUsage& usage = predicted->usage[domain];
      CHECK(usage.live_bytes + usage.retained_bytes == figures.live + figures.retained);
      uint64_t highest = 0;
      for (const AccountingStep& step : predicted->steps) highest = std::max(highest, step.peak_bytes[domain]);
      CHECK(highest == figures.peak);
    }
    CHECK(predicted->usage.global_peak_bytes == measured.global_peak_bytes);
    CHECK(predicted->evictions == measured.evictions);
    CHECK(predicted->rematerialised == measured.rematerialised);
  }
  CHECK((*runtime)->audit().ok());
}

TEST_CASE("what is predicted is what is measured, step by step") {
  MemoryLimits five;
  five.prepared_bytes = 5 * kMiB;
  MemoryLimits tight = five;
  tight.preparation_bytes = 6 * kMiB;
  MemoryLimits global;
  global.global_bytes = 24 * kMiB;
  MemoryLimits nothing_kept = five;
  nothing_kept.retained_bytes = 0;
  SessionOptions small_chunks;
  small_chunks.chunk_bytes = kMiB;
  SessionOptions on_demand = small_chunks, mapped = small_chunks, lru = small_chunks, eager, unverified = small_chunks,
                 window = small_chunks;
  on_demand.mode = Mode::on_demand;
  mapped.read = ReadMode::mapped;
  lru.evict_order = EvictOrder::lru;
  eager.mode = Mode::eager;
  unverified.verify = Verify::never;
  window.look_ahead.segments = 2;
  check_equal({"5 MiB", five, small_chunks});
  check_equal({"5 MiB, one token", five, small_chunks, 1, 4});
  check_equal({"5 MiB, staging limited", tight, small_chunks});
  check_equal({"5 MiB, nothing kept", nothing_kept, small_chunks});
  check_equal({"5 MiB, on demand", five, on_demand});
  check_equal({"5 MiB, mapped", five, mapped});
  check_equal({"5 MiB, least recently used", five, lru});
  check_equal({"5 MiB, look-ahead of two", five, window, 5});
  check_equal({"24 MiB in all", global, {}});
  check_equal({"eager, no limit", {}, eager, 17});
  check_equal({"unverified, no limit", {}, unverified});
}

TEST_CASE("under a limit something goes; what cannot fit fails with the session's own words") {
  Case wanted{"5 MiB", {.prepared_bytes = 5 * kMiB}};
  const auto runtime = Runtime::open(options_of(wanted));
  REQUIRE(runtime.ok());
  {
    const auto session = open(*runtime, wanted);
    const Result<Accounting> predicted = predict(session->plan(), wanted);
    REQUIRE(predicted.ok());
    CHECK(predicted->evictions > 0);
    CHECK(predicted->usage[Domain::prepared].peak_bytes <= 5 * kMiB);
    CHECK(predicted->usage[Domain::io].live_bytes > 0);  // the outputs, in the caller's hands
    CHECK(predicted->usage[Domain::execution].live_bytes == 0);
  }
  CHECK((*runtime)->audit().ok());

  wanted.limits.prepared_bytes = kMiB;
  const auto small = Runtime::open(options_of(wanted));
  REQUIRE(small.ok());
  {
    const auto session = open(*small, wanted);
    const auto invocation = invocation_of(session->plan().model, wanted.prompt_length);
    const Status measured = session->Run(invocation->context);
    const Result<Accounting> predicted = predict(session->plan(), wanted);
    REQUIRE_FALSE(measured.ok());
    REQUIRE_FALSE(predicted.ok());
    CHECK(predicted.error().kind == ErrorKind::cannot_fit);
    CHECK(predicted.error().message() == measured.error().message());
  }
  CHECK((*small)->audit().ok());
}

TEST_CASE("the table has a line a step, peaks and limits; the JSON the same numbers") {
  const Case wanted{"5 MiB", {.prepared_bytes = 5 * kMiB}};
  const auto runtime = Runtime::open(options_of(wanted));
  REQUIRE(runtime.ok());
  const auto session = open(*runtime, wanted);
  const Result<Accounting> predicted = predict(session->plan(), wanted);
  REQUIRE(predicted.ok());
  const std::string table = accounting_table(session->plan(), *predicted);
  CHECK(size_t(std::count(table.begin(), table.end(), '\n')) == predicted->steps.size() + 3);
  CHECK(table.find("; publish P.") != std::string::npos);
  CHECK(table.find("evict P.") != std::string::npos);
  CHECK(table.find(" 5.000 |") != std::string::npos);  // the limit
  const auto json = nlohmann::json::parse(accounting_json(session->plan(), *predicted));
  REQUIRE(json["steps"].size() == predicted->steps.size());
  CHECK(json["steps"].back()["work"] == "done");
  CHECK(json["arenas"]["prepared"]["limit"] == 5 * kMiB);
  CHECK(json["arenas"]["prepared"]["peak"] == predicted->usage[Domain::prepared].peak_bytes);
  CHECK_FALSE(json["arenas"]["execution"].contains("limit"));
}

}  // namespace
