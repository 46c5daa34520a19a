#include <nlohmann/json.hpp>

#include "ompipe/plan/print.h"

namespace ompipe::plan {
namespace {

using Json = nlohmann::ordered_json;

const char* kind_name(ObjectKind kind) {
  static constexpr const char* kNames[] = {"packed_matmul", "source_form", "bundle"};
  return kNames[size_t(kind)];
}

Json tasks_json(const PreparedExecutionPlan& plan) {
  Json json = Json::array();
  for (const TaskRow& task : plan_tasks(plan)) {
    json.push_back({{"task", task.id},
                    {"scope", task.scope},
                    {"resource", task.resource},
                    {"dependencies", task.dependencies},
                    {"result", task.result},
                    {"bytes", task.bytes},
                    {"chunks", task.chunks}});
  }
  return json;
}

Json objects_json(const PreparedExecutionPlan& plan) {
  const std::vector<std::string> names = object_names(plan);
  Json json = Json::array();
  for (size_t id = 0; id < names.size(); ++id) {
    const PreparedObject& object = plan.objects[id];
    json.push_back({{"name", names[id]},
                    {"key", object.key},
                    {"kind", kind_name(object.kind)},
                    {"layout", object.layout_key},
                    {"bytes", object.bytes},
                    {"source_bytes", object.source_bytes},
                    {"chunks", object.chunks.size()},
                    {"chunk_staging_bytes", object.chunk_staging_bytes},
                    {"aux_staging_bytes", object.aux_staging_bytes},
                    {"prepack_ns", object.prepack_ns},
                    {"row_addressable", object.row_addressable},
                    {"uses", object.uses},
                    {"certain", object.certain}});
  }
  return json;
}

Json segments_json(const PreparedExecutionPlan& plan) {
  const std::vector<std::string> names = segment_names(plan);
  Json json = Json::array();
  for (size_t id = 0; id < names.size(); ++id) {
    const Segment& segment = plan.segments[id];
    std::vector<SegmentId> next = segment.next;
    if (next.empty()) next.push_back(SegmentId(id) + 1);
    json.push_back({{"name", names[id]},
                    {"actions", {segment.begin, segment.end}},
                    {"requirements", segment.requirements},
                    {"range", segment.range == kNone ? Json() : Json(segment.range)},
                    {"next", next},
                    {"either", segment.either},
                    {"gang",
                     {{"objects", plan.gangs[id].objects},
                      {"prepared_bytes", plan.gangs[id].prepared_bytes},
                      {"staging_bytes", plan.gangs[id].staging_bytes}}}});
  }
  return json;
}

Json ranges_json(const PreparedExecutionPlan& plan) {
  Json json = Json::array();
  for (const Range& range : plan.ranges) {
    json.push_back({{"name", range.name},
                    {"inside", range.parent == kNone ? Json() : Json(range.parent)},
                    {"loop", range.loop},
                    {"segments", {range.begin, range.end}}});
  }
  return json;
}

}  // namespace

std::string plan_json(const PreparedExecutionPlan& plan) {
  const Json json = {{"chunk_bytes", plan.options.chunk_bytes},
                     {"isa", kernels::isa_name(plan.options.isa)},
                     {"source_bytes", plan.source_bytes},
                     {"packed_bytes", plan.packed_bytes},
                     {"largest_gang",
                      {{"objects", plan.largest_gang.objects},
                       {"prepared_bytes", plan.largest_gang.prepared_bytes},
                       {"staging_bytes", plan.largest_gang.staging_bytes}}},
                     {"tasks", tasks_json(plan)},
                     {"objects", objects_json(plan)},
                     {"segments", segments_json(plan)},
                     {"ranges", ranges_json(plan)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ompipe::plan
