#include "ompipe/trace/report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "ompipe/trace/perfetto.h"

namespace {

using namespace ompipe;
using doctest::Approx;
using session::Milestone;
using session::TaskEvent;
using session::TaskKind;

TaskEvent event(TaskKind kind, uint64_t start_ns, uint64_t end_ns, uint64_t cpu_ns = 0, uint32_t generation = 0) {
  TaskEvent made;
  made.kind = kind;
  made.start_ns = start_ns;
  made.end_ns = end_ns;
  made.cpu_ns = cpu_ns;
  made.generation = generation;
  made.name = "object";
  return made;
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("hidden is 1 at the bound, 0 at the sum, between in between") {
    trace::OverlapInputs inputs = {
        .read_s = 2, .prepack_s = 1, .compute_s = 1.5, .io_cpu_s = 0.5, .threads = 2, .cores = 4};
    inputs.measured_s = 2;
    trace::Overlap overlap = trace::compute_overlap(inputs);
    CHECK(overlap.io_side_s == Approx(2));
    CHECK(overlap.cpu_side_s == Approx(1.5));  // three seconds of CPU on two threads
    CHECK(overlap.sum_s == Approx(3.5));
    CHECK(overlap.longest_s == Approx(2));
    CHECK(overlap.bound_s == Approx(2));
    CHECK(overlap.from == "self");
    REQUIRE(overlap.hidden);
    CHECK(*overlap.hidden == Approx(1));
    inputs.measured_s = 3.5;
    CHECK(*trace::compute_overlap(inputs).hidden == Approx(0));
    inputs.measured_s = 2.75;
    CHECK(*trace::compute_overlap(inputs).hidden == Approx(0.5));
  }

  TEST_CASE("fewer cores than threads bound the CPU side") {
    const trace::OverlapInputs inputs = {.measured_s = 9, .read_s = 1, .prepack_s = 8, .threads = 8, .cores = 2};
    CHECK(trace::compute_overlap(inputs).cpu_side_s == Approx(4));
  }

  TEST_CASE("another run's reading time gives the bound") {
    trace::OverlapInputs inputs = {
        .measured_s = 3, .read_s = 2.5, .prepack_s = 2, .threads = 1, .cores = 2, .bound_file = "r.json"};
    inputs.bound_read_s = 1.0;
    const trace::Overlap overlap = trace::compute_overlap(inputs);
    CHECK(overlap.from == "r.json");
    CHECK(overlap.io_side_s == Approx(1));
    CHECK(overlap.read_s == Approx(2.5));
    CHECK(*overlap.hidden == Approx(0));
  }

  TEST_CASE("sides that can't tell give no figure") {
    trace::OverlapInputs inputs = {.measured_s = 1, .read_s = 0.04, .prepack_s = 0.96, .threads = 1, .cores = 1};
    CHECK(!trace::compute_overlap(inputs).hidden);  // the shorter side is 4% of the sum
    inputs.read_s = 0.06;
    CHECK(trace::compute_overlap(inputs).hidden);
    CHECK(!trace::compute_overlap({}).hidden);
  }

  TEST_CASE("the first run ends with the later of its output and the last first publish") {
    const std::vector<TaskEvent> events = {
        event(TaskKind::read, 1'000, 3'000),           event(TaskKind::read, 2'000, 6'000),
        event(TaskKind::prepack, 3'000, 5'000, 1'500), event(TaskKind::publish, 5'000, 5'000, 0, 1),
        event(TaskKind::segment, 6'000, 9'000, 2'000), event(TaskKind::publish, 11'000, 12'000, 0, 1),
        event(TaskKind::read, 20'000, 30'000),         event(TaskKind::publish, 31'000, 31'000, 0, 2),
    };
    const auto inputs = trace::first_run_inputs(events, 10'000);
    REQUIRE(inputs);
    CHECK(inputs->measured_s == Approx(11e-6));
    CHECK(inputs->read_s == Approx(6e-6));
    CHECK(inputs->prepack_s == Approx(1.5e-6));
    CHECK(inputs->compute_s == Approx(2e-6));
    CHECK(!trace::first_run_inputs({}, 10'000));
  }

  TEST_CASE("quantiles by nearest rank") {
    const std::vector<double> samples = {5, 1, 4, 2, 3};
    CHECK(trace::quantile(samples, 0.5) == 3);
    CHECK(trace::quantile(samples, 0.99) == 5);
    CHECK(trace::quantile(samples, 0) == 1);
    CHECK(trace::quantile({}, 0.5) == 0);
  }

  TEST_CASE("the JSON has the contract's names, and only what happened") {
    trace::Report report;
    report.command = {"ompipe", "run", "m\xff.onnx"};  // not UTF-8
    report.start_ns = 1'000'000'000;
    report.milestone_ns[size_t(Milestone::first_read)] = 1'500'000'000;
    report.runtime.scheduler = "omp-tasks";
    report.runtime.arenas["prepared"] = {.limit = session::kUnlimited, .live = 1, .peak = 2, .retained = 3};
    report.runtime.arenas["io"] = {.limit = 7, .live = 0, .peak = 5, .retained = 0};
    report.runs.resize(1);
    report.runs[0].hot = true;
    report.runs[0].tokens = {4};
    report.runs[0].heap_allocations = 6;
    report.status_code = 3;
    report.error = "digest: w: wrong";
    const auto json = nlohmann::json::parse(trace::report_json(report));
    for (const char* name : {"schema_version",
                             "command",
                             "version",
                             "git",
                             "compiler",
                             "openmp_runtime",
                             "openmp_environment",
                             "scheduling_slice",
                             "isa",
                             "scheduler",
                             "fallback_used",
                             "mode",
                             "threads",
                             "io_threads",
                             "placement",
                             "verify",
                             "model",
                             "milestones",
                             "work",
                             "latency",
                             "bytes",
                             "faults",
                             "memory",
                             "objects",
                             "scheduler_counters",
                             "runs",
                             "status"}) {
      CHECK_MESSAGE(json.contains(name), name);
    }
    CHECK(json["schema_version"] == 1);
    CHECK(!json.contains("seed"));
    CHECK(!json.contains("overlap"));
    CHECK(json["milestones"].size() == 1);
    CHECK(json["milestones"]["first_read"].get<double>() == Approx(0.5));
    CHECK(!json["latency"].contains("cancel_s"));
    CHECK(!json["memory"]["arenas"]["prepared"].contains("limit"));
    CHECK(json["memory"]["arenas"]["io"]["limit"] == 7);
    CHECK(json["runs"][0]["path"] == "hot");
    CHECK(json["runs"][0]["tokens"][0] == 4);
    CHECK(json["runs"][0]["heap_allocations"] == 6);
    CHECK(json["status"]["code"] == 3);
    CHECK(json["status"]["error"] == "digest: w: wrong");
  }

  TEST_CASE("the table lists milestones by time") {
    trace::Report report;
    report.start_ns = 0;
    report.milestone_ns[size_t(Milestone::first_output)] = 2'000'000;
    report.milestone_ns[size_t(Milestone::metadata)] = 3'000'000;
    report.overlap = trace::Overlap{.hidden = 0.25};
    const std::string table = trace::milestone_table(report);
    CHECK(table.find("first_output") < table.find("metadata"));
    CHECK(table.find("2.000 ms") != std::string::npos);
    CHECK(table.find("hidden 0.25") != std::string::npos);
  }

  TEST_CASE("the trace is JSON with a track for each thread and every argument of the contract") {
    std::vector<TaskEvent> events = {event(TaskKind::read, 2'000, 5'000), event(TaskKind::prepack, 5'000, 6'000, 900)};
    events[0].lane = session::kIoLane + 1;
    events[0].name = "a \"quoted\\\n name";
    events[1].lane = 0;
    std::array<std::optional<uint64_t>, session::kMilestones> milestones;
    milestones[size_t(Milestone::first_read)] = 2'000;
    const auto json = nlohmann::json::parse(trace::trace_json(events, milestones, 1'000));
    std::vector<std::string> tracks;
    size_t complete = 0, instants = 0;
    for (const auto& entry : json["traceEvents"]) {
      if (entry["name"] == "thread_name") tracks.push_back(entry["args"]["name"]);
      if (entry["ph"] == "i") ++instants;
      if (entry["ph"] != "X") continue;
      ++complete;
      for (const char* name : {"task", "scope", "kind", "resource", "original_priority", "effective_priority",
                               "bytes_in_flight", "executor", "generation", "source"}) {
        CHECK_MESSAGE(entry["args"].contains(name), name);
      }
    }
    CHECK(tracks == std::vector<std::string>{"compute 0", "io 1"});
    CHECK(complete == 2);
    CHECK(instants == 1);
    CHECK(trace::trace_json({}, milestones, 0).find("first_read") != std::string::npos);
  }
}
