// An observer that checks, at every event of every session, what must hold whatever happens: one generation of a key at
// a time, nothing evicted under a consumer.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ompipe/plan/plan.h"
#include "ompipe/session/observer.h"

namespace ompipe::session::testing {

class Invariants : public Observer {
 public:
  // Before anything of the session is asked for; the plan outlives what is told of it.
  void watch(const plan::PreparedExecutionPlan& plan);

  void on_task(const TaskEvent& event) noexcept override;
  void on_milestone(Milestone, uint64_t) noexcept override {}

  // What was broken, in words; none if all is well. And how many events were looked at, by kind.
  std::vector<std::string> broken();
  uint64_t seen(TaskKind kind);

 private:
  struct Object {
    uint32_t generation = 0;
    bool published = false;         // and not evicted since
    uint64_t chosen_ns = 0;         // when it was last chosen for eviction
    uint64_t last_consumer_ns = 0;  // the end of the last segment that used it
  };
  struct Session {
    const plan::PreparedExecutionPlan* plan = nullptr;
    std::vector<Object> objects;
  };

  Session* session_of(const TaskEvent& event);
  void object_seen(Object& object, const TaskEvent& event);
  void segment_seen(Session& session, const TaskEvent& event);
  void breaks(const TaskEvent& event, const std::string& what);

  std::mutex mutex_;
  std::map<const char*, Session> sessions_;   // by where the name of the plan's first object lies
  std::map<const char*, const char*> names_;  // of objects and segments, to that
  std::vector<std::string> broken_;
  std::map<TaskKind, uint64_t> seen_;
};

}  // namespace ompipe::session::testing
