#include "ompipe/plan/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ompipe::plan {
namespace {

// Names are the model's, which may repeat them.
std::string unique(const std::string& name, std::set<std::string>& taken) {
  std::string result = name;
  for (int i = 2; !taken.insert(result).second; ++i) result = fmt::format("{}#{}", name, i);
  return result;
}

template <class Items>
std::vector<std::string> unique_names(const Items& items) {
  std::set<std::string> taken;
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const auto& item : items) names.push_back(unique(item.name, taken));
  return names;
}

void add_object(const PreparedExecutionPlan& plan, const PreparedObject& object, const std::string& name,
                std::vector<TaskRow>& tasks) {
  const std::string stem = "S." + name, published = "P." + name;
  const int chunks = int(object.chunks.size());
  uint64_t read_bytes = 0;
  for (const Chunk& chunk : object.chunks) {
    for (const Read& read : chunk.reads) read_bytes += read.length;
  }
  for (const Read& read : object.aux_reads) read_bytes += read.length;
  std::vector<std::string> payloads;
  payloads.reserve(object.sources.size());
  for (const Source& source : object.sources) payloads.push_back("payload " + plan.model->payload(source.payload).name);
  tasks.push_back({stem + ".read_source", "session", "io", std::move(payloads), fmt::format("{} bytes", read_bytes),
                   read_bytes, chunks});
  tasks.push_back({stem + ".prepack",
                   "session",
                   "cpu",
                   {stem + ".read_source"},
                   fmt::format("{} bytes, {}", object.bytes, object.layout_key),
                   object.bytes,
                   chunks});
  tasks.push_back({stem + ".publish", "session", "inline", {stem + ".prepack"}, published, object.bytes, 1});
}

// The values that a segment defines and somebody needs after it.
std::string lasting_values(const PreparedExecutionPlan& plan, const Segment& segment) {
  std::string names;
  for (size_t id = 0; id < plan.lives.size(); ++id) {
    const ValueLife& life = plan.lives[id];
    if (life.defined < segment.begin || life.defined >= segment.end) continue;
    if (life.last_use < segment.end && !life.output) continue;
    names += (names.empty() ? "" : ", ") + plan.model->values()[id].name;
  }
  return names;
}

std::vector<std::string> segment_inputs(const PreparedExecutionPlan& plan, const Segment& segment) {
  std::set<model::ValueId> fed;
  for (ActionId a = segment.begin; a < segment.end; ++a) {
    const Action& action = plan.actions[size_t(a)];
    const bool ends = action.step == Step::yield || action.step == Step::repeat;
    const auto& values = ends ? plan.model->graph(plan.ranges[size_t(action.range)].graph).outputs
                              : plan.model->node(action.node).inputs;
    for (model::ValueId id : values) {
      if (id != model::kNone && plan.model->value(id).source == model::ValueSource::graph_input) fed.insert(id);
    }
  }
  std::vector<std::string> names;
  names.reserve(fed.size());
  for (model::ValueId id : fed) names.push_back("input " + plan.model->value(id).name);
  return names;
}

// The segments that may come directly before each.
std::vector<std::vector<SegmentId>> segments_before(const PreparedExecutionPlan& plan) {
  const auto end = SegmentId(plan.segments.size());
  std::vector<std::vector<SegmentId>> before(plan.segments.size());
  for (SegmentId id = 0; id < end; ++id) {
    for (size_t choice = 0; choice < std::max<size_t>(plan.segments[size_t(id)].next.size(), 1); ++choice) {
      if (const SegmentId next = plan.after(id, int32_t(choice)); next < end) before[size_t(next)].push_back(id);
    }
  }
  return before;
}

// What a segment that chooses goes on with: the ranges that it enters or begins again, and what is behind them.
std::string choices(const PreparedExecutionPlan& plan, SegmentId id) {
  if (!plan.chooses(id)) return "";
  std::string text;
  for (const SegmentId next : plan.segments[size_t(id)].next) {
    std::string name = "behind it";
    for (const Range& range : plan.ranges) {
      if (range.begin == next && range.head <= plan.segments[size_t(id)].end - 1) name = range.name;
    }
    text += (text.empty() ? "chooses " : " or ") + name;
  }
  return text;
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

}  // namespace

std::vector<std::string> object_names(const PreparedExecutionPlan& plan) { return unique_names(plan.objects); }

std::vector<std::string> segment_names(const PreparedExecutionPlan& plan) { return unique_names(plan.segments); }

std::vector<TaskRow> plan_tasks(const PreparedExecutionPlan& plan) {
  const std::vector<std::string> objects = object_names(plan), segments = segment_names(plan);
  const std::vector<std::vector<SegmentId>> before = segments_before(plan);
  std::vector<TaskRow> tasks;
  for (size_t id = 0; id < objects.size(); ++id) add_object(plan, plan.objects[id], objects[id], tasks);
  for (size_t id = 0; id < segments.size(); ++id) {
    const Segment& segment = plan.segments[id];
    TaskRow row{"I." + segments[id], "invocation", "cpu", {}, lasting_values(plan, segment), 0, 1};
    if (const std::string chosen = choices(plan, SegmentId(id)); !chosen.empty())
      row.result += (row.result.empty() ? "" : "; ") + chosen;
    for (const SegmentId previous : before[id]) row.dependencies.push_back("I." + segments[size_t(previous)]);
    for (std::string& input : segment_inputs(plan, segment)) row.dependencies.push_back(std::move(input));
    for (ObjectId object : segment.requirements) row.dependencies.push_back("P." + objects[size_t(object)]);
    tasks.push_back(std::move(row));
  }
  return tasks;
}

std::string plan_table(const PreparedExecutionPlan& plan) {
  const std::vector<TaskRow> tasks = plan_tasks(plan);
  size_t width = 4;
  for (const TaskRow& task : tasks) width = std::max(width, task.id.size());
  std::string text =
      fmt::format("{:<{}} | {:<10} | {:<8} | Dependencies | Result\n", "Task", width, "Scope", "Resource");
  for (const TaskRow& task : tasks) {
    const std::string times = task.chunks > 1 ? fmt::format(" in {} chunks", task.chunks) : "";
    text += fmt::format("{:<{}} | {:<10} | {:<8} | {} | {}{}\n", task.id, width, task.scope, task.resource,
                        joined(task.dependencies), task.result, times);
  }
  const std::vector<std::string> segments = segment_names(plan);
  for (const Range& range : plan.ranges) {
    text += fmt::format("range {}: I.{} to I.{}{}\n", range.name, segments[size_t(range.begin)],
                        segments[size_t(range.end) - 1], range.loop ? ", pass by pass" : "");
  }
  return text + fmt::format(
                    "{} objects, {} bytes to read, {} bytes prepared; {} segments; largest gang: {} objects, {} "
                    "bytes prepared, {} bytes of staging\n",
                    plan.objects.size(), plan.source_bytes, plan.packed_bytes, plan.segments.size(),
                    plan.largest_gang.objects, plan.largest_gang.prepared_bytes, plan.largest_gang.staging_bytes);
}

std::string plan_dot(const PreparedExecutionPlan& plan) {
  std::string text = "digraph plan {\n  rankdir=LR;\n  node [shape=box];\n";
  const std::vector<std::string> segments = segment_names(plan);
  for (size_t id = 0; id < plan.ranges.size(); ++id) {
    const Range& range = plan.ranges[id];
    text += fmt::format("  subgraph cluster_{} {{ label={};", id, quoted(range.name));
    for (SegmentId s = range.begin; s < range.end; ++s) {
      if (plan.segments[size_t(s)].range == RangeId(id)) text += " " + quoted("I." + segments[size_t(s)]) + ";";
    }
    text += " }\n";
  }
  for (const TaskRow& task : plan_tasks(plan)) {
    text += fmt::format("  {} [style={}];\n", quoted(task.id), task.scope == "session" ? "solid" : "bold");
    for (const std::string& dependency : task.dependencies)
      text += fmt::format("  {} -> {};\n", quoted(dependency), quoted(task.id));
    if (task.resource == "inline") text += fmt::format("  {} -> {};\n", quoted(task.id), quoted(task.result));
  }
  return text + "}\n";
}

}  // namespace ompipe::plan
