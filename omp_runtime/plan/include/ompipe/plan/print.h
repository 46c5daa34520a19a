// The plan for people and programs: its tasks with what each depends on and gives, as a table, as JSON and as DOT.
#pragma once

#include <string>
#include <vector>

#include "ompipe/plan/plan.h"

namespace ompipe::plan {

// One task descriptor. Tasks of the session (S.) read, prepack and publish objects; those of an invocation (I.) run
// segments; P. is a published object.
struct TaskRow {
  std::string id;     // "S.layers.0.qkv.read_source", "S.layers.0.qkv.prepack", "S.layers.0.qkv.publish", "I.layers.0"
  std::string scope;  // session, invocation
  std::string resource;                   // io, cpu, inline
  std::vector<std::string> dependencies;  // ids; "P." and an object's name; "payload" or "input" and a name
  std::string result;  // what it gives: bytes, packed bytes, "P." and a name; the values that outlive a segment, and
                       // what it chooses from
  uint64_t bytes = 0;  // read, prepared or published; 0 for segments
  int chunks = 0;      // how many gates and task bodies stand for this row; 1 for publish and segments
};

// What people call the plan's objects and segments, by index: their names, with "#2" and so on where a name is taken.
std::vector<std::string> object_names(const PreparedExecutionPlan& plan);
std::vector<std::string> segment_names(const PreparedExecutionPlan& plan);

// The tasks of all objects in the order of their first use, then the segments in order. Any thread.
std::vector<TaskRow> plan_tasks(const PreparedExecutionPlan& plan);

// Task | Scope | Resource | Dependencies | Result, one line a task, one a range, and a line of totals.
std::string plan_table(const PreparedExecutionPlan& plan);
// {chunk_bytes, isa, source_bytes, packed_bytes, largest_gang{}, tasks[], objects[], segments[], ranges[]}; segments
// name objects and ranges by index. Names that are no UTF-8 come out with replacement characters.
std::string plan_json(const PreparedExecutionPlan& plan);
// A digraph for Graphviz, ranges as clusters: an edge from each task, object and payload to what depends on it.
std::string plan_dot(const PreparedExecutionPlan& plan);

}  // namespace ompipe::plan
