#include "ompipe/trace/perfetto.h"

#include <fmt/format.h>

#include <iterator>
#include <set>

#include "ompipe/trace/recorder.h"

namespace ompipe::trace {

using session::TaskEvent;

namespace {

using Text = fmt::memory_buffer;

void append_escaped(Text& text, std::string_view value) {
  for (const char c : value) {
    if (c == '"' || c == '\\') text.push_back('\\');
    if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(text), "\\u{:04x}", unsigned(c));
    } else {
      text.push_back(c);
    }
  }
}

double microseconds(uint64_t ns, uint64_t start_ns) { return double(int64_t(ns - start_ns)) * 1e-3; }

std::string lane_name(int32_t lane) {
  if (lane == session::kCoordinatorLane) return "coordinator";
  if (lane == session::kDeviceLane) return "device";
  if (lane >= session::kIoLane) return fmt::format("io {}", lane - session::kIoLane);
  return fmt::format("compute {}", lane);
}

void append_lane(Text& text, int32_t lane) {
  fmt::format_to(std::back_inserter(text),
                 R"({{"ph":"M","pid":1,"tid":{0},"name":"thread_name","args":{{"name":"{1}"}}}},)"
                 "\n"
                 R"({{"ph":"M","pid":1,"tid":{0},"name":"thread_sort_index","args":{{"sort_index":{0}}}}},)"
                 "\n",
                 lane, lane_name(lane));
}

void append_event(Text& text, const TaskEvent& event, uint64_t start_ns) {
  fmt::format_to(std::back_inserter(text),
                 R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":"{}","name":"{} )", event.lane,
                 microseconds(event.start_ns, start_ns), double(event.end_ns - event.start_ns) * 1e-3,
                 task_kind_name(event.kind), task_kind_name(event.kind));
  append_escaped(text, event.name);
  fmt::format_to(
      std::back_inserter(text),
      R"(","args":{{"task":{},"scope":"{}","kind":"{}","resource":"{}","original_priority":"{}",)"
      R"("effective_priority":"{}","source":"{}","executor":{},"generation":{},"bytes":{},"bytes_in_flight":{},)"
      R"("object":{},"chunk":{},"segment":{},"invocation":{},"queued_us":{:.3f},"cpu_us":{:.3f}}}}},)"
      "\n",
      event.task, scope_name(event.scope), task_kind_name(event.kind), resource_name(event.resource),
      priority_name(event.original), priority_name(event.effective), source_name(event.source), event.executor,
      event.generation, event.bytes, event.bytes_in_flight, event.object, event.chunk, event.segment, event.invocation,
      event.queued_ns ? microseconds(event.queued_ns, start_ns) : 0.0, double(event.cpu_ns) * 1e-3);
}

}  // namespace

std::string trace_json(std::span<const TaskEvent> events,
                       const std::array<std::optional<uint64_t>, session::kMilestones>& milestone_ns,
                       uint64_t start_ns) {
  Text text;
  fmt::format_to(std::back_inserter(text), "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  std::set<int32_t> lanes;
  for (const TaskEvent& event : events) lanes.insert(event.lane);
  for (const int32_t lane : lanes) append_lane(text, lane);
  for (const TaskEvent& event : events) append_event(text, event, start_ns);
  for (int i = 0; i < session::kMilestones; ++i) {
    if (!milestone_ns[size_t(i)]) continue;
    fmt::format_to(std::back_inserter(text),
                   R"({{"ph":"i","s":"p","pid":1,"tid":0,"ts":{:.3f},"cat":"milestone","name":"{}"}},)"
                   "\n",
                   microseconds(*milestone_ns[size_t(i)], start_ns), milestone_name(session::Milestone(i)));
  }
  fmt::format_to(std::back_inserter(text), R"({{"ph":"M","pid":1,"name":"process_name","args":{{"name":"ompipe"}}}})"
                                           "\n]}}\n");
  return fmt::to_string(text);
}

}  // namespace ompipe::trace
