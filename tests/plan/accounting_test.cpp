// The predicted accounting against what the sequential scheduler measures: the same bytes at every step, the same
// peaks.
#include "ompipe/session/accounting.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "accounting_rig.h"

namespace ompipe::session::accounting {

using arenas::Domain;

TEST_SUITE_BEGIN("accounting");

namespace {

void check_equal(const Case& wanted) {
  CAPTURE(wanted.name);
  Stand stand(wanted);
  const Measured measured = stand.measure();
  const Result<Accounting> predicted = stand.predict(measured.runs);
  REQUIRE_MESSAGE(predicted.ok(), (predicted.ok() ? "" : predicted.error().message()));
  // With everything resident the run is hot, and no segment of it is seen.
  const bool hot = wanted.session.mode == Mode::eager;
  REQUIRE(predicted->steps.size() == measured.steps.size() + (hot ? stand.plan().segments.size() : 0));
  for (size_t i = 0; i + 1 < measured.steps.size(); ++i) {
    CAPTURE(i);
    check_step(predicted->steps[i], measured.steps[i]);
  }
  for (Domain domain : arenas::kDomains) {
    CAPTURE(arenas::domain_name(domain));
    const DomainFigures& figures = measured.figures.arenas.at(arenas::domain_name(domain));
    CHECK(predicted->usage[domain].peak_bytes == figures.peak);
    // A frame that is kept for the next hot run is live where it was measured, and retained where it was predicted.
    const arenas::DomainUsage& usage = predicted->usage[domain];
    CHECK(usage.live_bytes + usage.retained_bytes == figures.live + figures.retained);
    uint64_t highest = 0;
    for (const AccountingStep& step : predicted->steps) highest = std::max(highest, step.peak_bytes[domain]);
    CHECK(highest == figures.peak);
  }
  CHECK(predicted->usage.global_peak_bytes == measured.figures.global_peak_bytes);
  CHECK(predicted->evictions == measured.figures.evictions);
  CHECK(predicted->rematerialised == measured.figures.rematerialised);
}

}  // namespace

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
  {
    Stand stand(wanted);
    const auto invocation = invocation_of(stand.plan().model, wanted);
    REQUIRE(invocation->begin_step());
    const Result<Accounting> predicted = stand.predict({invocation->context});
    REQUIRE(predicted.ok());
    CHECK(predicted->evictions > 0);
    CHECK(predicted->usage[Domain::prepared].peak_bytes <= 5 * kMiB);
    CHECK(predicted->usage[Domain::io].live_bytes > 0);  // the outputs, in the caller's hands
    CHECK(predicted->usage[Domain::execution].live_bytes == 0);
  }
  wanted.limits = {.execution_bytes = 1};
  Stand small(wanted);
  const auto invocation = invocation_of(small.plan().model, wanted);
  REQUIRE(invocation->begin_step());
  const Status measured = small.session().Run(invocation->context);
  const Result<Accounting> predicted = small.predict({invocation->context});
  REQUIRE_FALSE(measured.ok());
  REQUIRE_FALSE(predicted.ok());
  CHECK(predicted.error().kind == ErrorKind::cannot_fit);
  CHECK(predicted.error().message() == measured.error().message());
  // Too little for its largest gang: not even opened.
  RuntimeOptions options = options_of(wanted);
  options.limits = {.preparation_bytes = kMiB};
  const auto runtime = Runtime::open(options);
  REQUIRE(runtime.ok());
  const auto opened = RuntimeSession::open(*runtime, tiny_model(), wanted.session);
  const std::shared_ptr<const plan::PreparedExecutionPlan> shared(std::shared_ptr<void>(), &small.plan());
  const Result<Accounting> refused = predict_accounting(shared, {}, options, wanted.session, false);
  REQUIRE_FALSE(opened.ok());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::cannot_fit);
  CHECK(refused.error().message() == opened.error().message());
}

TEST_CASE("the table has a line a step, peaks and limits; the JSON the same numbers") {
  const Case wanted{"5 MiB", {.prepared_bytes = 5 * kMiB}};
  Stand stand(wanted);
  const auto invocation = invocation_of(stand.plan().model, wanted);
  REQUIRE(invocation->begin_step());
  const Result<Accounting> predicted = stand.predict({invocation->context});
  REQUIRE(predicted.ok());
  const std::string table = accounting_table(stand.plan(), *predicted);
  CHECK(size_t(std::count(table.begin(), table.end(), '\n')) == predicted->steps.size() + 3);
  CHECK(table.find("; publish P.") != std::string::npos);
  CHECK(table.find("evict P.") != std::string::npos);
  CHECK(table.find(" 5.000 |") != std::string::npos);  // the limit
  const auto json = nlohmann::json::parse(accounting_json(stand.plan(), *predicted));
  REQUIRE(json["steps"].size() == predicted->steps.size());
  CHECK(json["steps"].back()["work"] == "done");
  CHECK(json["arenas"]["prepared"]["limit"] == 5 * kMiB);
  CHECK(json["arenas"]["prepared"]["peak"] == predicted->usage[Domain::prepared].peak_bytes);
  CHECK_FALSE(json["arenas"]["execution"].contains("limit"));
}

TEST_SUITE_END();

}  // namespace ompipe::session::accounting
