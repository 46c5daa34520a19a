#include <nlohmann/json.hpp>

#include "ompipe/trace/report.h"

namespace ompipe::trace {

using Json = nlohmann::ordered_json;

namespace {

double seconds(uint64_t ns) { return double(ns) * 1e-9; }

Json milestones_json(const Report& report) {
  Json json = Json::object();
  for (int i = 0; i < session::kMilestones; ++i) {
    const auto& at = report.milestone_ns[size_t(i)];
    if (at) json[milestone_name(session::Milestone(i))] = double(int64_t(*at - report.start_ns)) * 1e-9;
  }
  return json;
}

Json work_json(const Report& report) {
  auto cpu = [&](session::TaskKind kind) { return seconds(report.sums[size_t(kind)].cpu_ns); };
  return {{"read_s", report.runtime.read_s},
          {"prepack_s", cpu(session::TaskKind::prepack)},
          {"compute_s", cpu(session::TaskKind::segment)},
          {"persist_s", cpu(session::TaskKind::persist)},
          {"transfer_s", cpu(session::TaskKind::transfer)},
          {"io_cpu_s", report.runtime.io_cpu_s}};
}

Json latency_json(const Report& report) {
  Json json = {{"submission_s", report.submission_s}};
  if (report.cancel_s) json["cancel_s"] = *report.cancel_s;
  json["ready_queue"] = {{"p50", quantile(report.ready_queue_s, 0.5)}, {"p99", quantile(report.ready_queue_s, 0.99)}};
  json["per_segment_wait_s"] = report.segment_wait_s;
  return json;
}

Json overlap_json(const Overlap& overlap) {
  Json json = {{"measured_s", overlap.measured_s},
               {"bound_s", overlap.bound_s},
               {"sum_s", overlap.sum_s},
               {"longest_s", overlap.longest_s}};
  if (overlap.hidden) json["hidden"] = *overlap.hidden;
  json["from"] = overlap.from;
  json["read_s"] = overlap.read_s;
  json["io_side_s"] = overlap.io_side_s;
  json["cpu_side_s"] = overlap.cpu_side_s;
  return json;
}

Json bytes_json(const Report& report) {
  const session::RuntimeFigures& runtime = report.runtime;
  return {{"logical_read", runtime.logical_read_bytes},
          {"physical_read", runtime.physical_read_bytes},
          {"portable_read", runtime.portable_read_bytes},
          {"resolve_read", report.resolve_read_bytes},
          {"copied", runtime.copied_bytes},
          {"mapped", runtime.mapped_bytes},
          {"borrowed", 0},
          {"avoided",
           {{"dead", report.avoided.dead},
            {"superseded", report.avoided.superseded},
            {"companion", report.avoided.companion},
            {"branch", report.avoided.branch}}}};
}

Json memory_json(const Report& report) {
  Json arenas = Json::object();
  for (const auto& [name, figures] : report.runtime.arenas) {
    Json arena = Json::object();
    if (figures.limit != session::kUnlimited) arena["limit"] = figures.limit;
    arena["live"] = figures.live;
    arena["peak"] = figures.peak;
    arena["retained"] = figures.retained;
    arenas[name] = std::move(arena);
  }
  return {{"peak_rss", report.process.peak_rss_bytes},
          {"peak_private", report.process.private_bytes},
          {"global_peak", report.runtime.global_peak_bytes},
          {"arenas", std::move(arenas)}};
}

Json objects_json(const Report& report) {
  Json json = Json::array();
  for (const session::ObjectFigures& object : report.objects) {
    json.push_back({{"key", object.key},
                    {"name", object.name},
                    {"source", object.source},
                    {"generation", object.generation},
                    {"bytes", object.bytes},
                    {"layout", object.layout},
                    {"state", object.state}});
  }
  return json;
}

Json device_json(const Report& report) {
  Json refused = Json::array();
  for (const auto& [node, reason] : report.device.refused) refused.push_back({{"node", node}, {"reason", reason}});
  const session::DeviceFigures& device = report.runtime.device;
  return {{"id", device.id},
          {"behaviour", device.behaviour},
          {"nodes", report.device.nodes},
          {"weight_bytes", report.device.weight_bytes},
          {"refused", std::move(refused)},
          {"batches", device.batches},
          {"uploaded_bytes", device.uploaded_bytes},
          {"read_back_bytes", device.read_back_bytes},
          {"shared_loads", device.shared_loads}};
}

Json counters_json(const Report& report) {
  const session::RuntimeFigures& runtime = report.runtime;
  return {{"tasks_created", runtime.tasks_created},
          {"segments", runtime.segments},
          {"promotions", runtime.promotions},
          {"gates_opened", runtime.gates_opened},
          {"peak_bytes_in_flight", runtime.peak_bytes_in_flight},
          {"evictions", runtime.evictions},
          {"rematerialised", runtime.rematerialised},
          {"fallbacks", runtime.fallbacks},
          {"ran_on_coordinator", runtime.ran_on_coordinator},
          {"dropped_events", report.dropped_events}};
}

Json runs_json(const Report& report) {
  Json json = Json::array();
  for (const RunRecord& run : report.runs) {
    json.push_back({{"index", run.index},
                    {"repeat", run.repeat},
                    {"invocation", run.invocation},
                    {"path", run.hot ? "hot" : "cold"},
                    {"seconds", run.seconds},
                    {"tokens", run.tokens},
                    {"output_digest", run.output_digest},
                    {"heap_allocations", run.heap_allocations}});
  }
  return json;
}

Json status_json(const Report& report) {
  Json json = {{"code", report.status_code}};
  if (!report.diagnostics.failed_task.empty()) json["failed_task"] = report.diagnostics.failed_task;
  json["suppressed"] = report.diagnostics.suppressed;
  if (!report.error.empty()) json["error"] = report.error;
  json["executor"] = report.runtime.executor;
  return json;
}

Json model_json(const ModelFigures& model) {
  return {{"path", model.path},
          {"bytes", model.bytes},
          {"nodes", model.nodes},
          {"initializers", model.initializers},
          {"payloads", model.payloads},
          {"source_bytes", model.source_bytes},
          {"packed_bytes", model.packed_bytes}};
}

}  // namespace

std::string report_json(const Report& report) {
  const session::RuntimeFigures& runtime = report.runtime;
  Json json = {{"schema_version", kReportSchema},
               {"command", report.command},
               {"version", report.version},
               {"git", report.git},
               {"compiler", report.compiler},
               {"openmp_runtime", runtime.openmp_runtime},
               {"openmp_environment", Json(runtime.openmp_environment)},
               {"scheduling_slice", runtime.scheduling_slice},
               {"isa", report.isa},
               {"scheduler", runtime.scheduler},
               {"fallback_used", runtime.fallback_used},
               {"mode", report.mode},
               {"threads", runtime.threads},
               {"io_threads", runtime.io_threads},
               {"placement", {{"name", runtime.placement}}},
               {"verify", report.verify}};
  if (!runtime.unbound.empty()) json["placement"]["unbound"] = runtime.unbound;
  if (report.seed) json["seed"] = *report.seed;
  json["model"] = model_json(report.model);
  json["milestones"] = milestones_json(report);
  json["work"] = work_json(report);
  json["latency"] = latency_json(report);
  if (report.overlap) json["overlap"] = overlap_json(*report.overlap);
  json["bytes"] = bytes_json(report);
  json["faults"] = {{"minor", report.process.minor_faults}, {"major", report.process.major_faults}};
  json["memory"] = memory_json(report);
  if (!report.runtime.device.id.empty()) json["device"] = device_json(report);
  json["objects"] = objects_json(report);
  json["scheduler_counters"] = counters_json(report);
  json["runs"] = runs_json(report);
  json["status"] = status_json(report);
  // Names and messages may hold bytes of a damaged model that aren't UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ompipe::trace
