// The policy without threads: a scheduler and effects that only record what they are asked for, and events in whatever
// order a test chooses. After every event all that must always hold is checked.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "completion.h"
#include "ompipe/arenas/block_arena.h"
#include "policy.h"

namespace ompipe::session::script {

using plan::ObjectId;
using PlanPointer = std::shared_ptr<const plan::PreparedExecutionPlan>;

struct Log : std::vector<std::string> {
  using std::vector<std::string>::vector;
};
std::ostream& operator<<(std::ostream& out, const Log& log);

inline constexpr uint64_t kPage = arenas::kPageBytes;

struct ObjectSpec {
  uint64_t bytes = kPage;
  int chunks = 1;
  uint64_t staging_bytes = kPage;  // of each chunk; 0: read straight into the object
  int aux_reads = 0;
  bool table = false;  // of kTableSlices digest slices, which runs may read instead
  plan::Recipe recipe = plan::Recipe::on_cpu;
  ObjectId other_side = plan::kNone;  // an earlier object, of the same sources for the CPU
};
inline constexpr uint64_t kTableSlices = 8;

// A plan that was never a model: `segments[s]` are the objects that segment s needs, in the order of first use;
// `on_device`: segments that run there.
PlanPointer make_plan(const std::vector<ObjectSpec>& objects, const std::vector<std::vector<ObjectId>>& segments,
                      const std::vector<plan::SegmentId>& on_device = {});
// One object a segment, each of a page.
PlanPointer make_chain(int objects);

struct WorldOptions {
  int threads = 2, io_threads = 2;
  int load_tokens = 16, publish_tokens = 16;
  arenas::BudgetLimits limits = {};
  bool discards_later = false;    // an evicted object's bytes go back at an event of their own
  int device_batches = 2;         // that the device takes at once
  bool hot = false;               // what has everything resident runs hot, by events start_hot and finish_hot
  uint64_t hot_predicted_ns = 1;  // what a hot run was expected to take
  std::function<int32_t(plan::SegmentId)> choice = {};  // what a segment that ends reports; none: the first
  std::function<bool()> reads_begin_early = {};  // asked when a read is to be withdrawn: whether a device has it by now
  std::function<bool()> discards_begin_early =
      {};  // asked when an evicted object is to stay: whether its pages go by now
};

// Limits with one domain bounded.
arenas::BudgetLimits limit(arenas::Domain domain, uint64_t bytes);

struct RunSpec {
  uint64_t execution_bytes = kPage;
  std::vector<uint64_t> output_bytes = {};
  uint64_t device_bytes = 0;
  std::vector<exec::MemoryWanted> grows = {};  // what its first segments lack, one after the other
  std::vector<uint64_t> slices = {};           // of every table it meets; none: it needs the whole
  bool refuse_without_slot = false;
};

// How an invocation or a preparation stands.
struct Handle {
  CompletionRef completion;

  bool done() const { return completion->ready(); }
  bool succeeded() const { return done() && completion->status->ok(); }
  const Error& error() const { return completion->status->error(); }
};

// Something that can happen next.
struct Event {
  enum class Kind : uint8_t {
    read,
    start_pack,
    finish_pack,
    start_segment,
    finish_segment,
    discard,
    device,      // the oldest batch there ends
    start_hot,   // the oldest published run is claimed, and on its way back if its session's gate is closed
    finish_hot,  // no event of the policy's, unless it waits for one
    hand_back,   // the policy gets what was on its way back, the oldest first
  } kind;
  uint64_t id;  // of the read; the token; the slot; the discard's index
};

// Outputs of runs, which stay live until the test lets them go.
using Outputs = std::vector<arenas::Allocation>;

class World : private schedule::Scheduler, private Effects {
 public:
  explicit World(const WorldOptions& options = {});
  // Closes every session and checks the ledger; the test has drained the world before.
  ~World() override;

  // Sessions are called a, b, c... in the log, their objects a0, a1..., chunks a0.0, aux reads a0.aux; runs by age,
  // their segments 1.0, 1.1...
  SessionState& bind(PlanPointer plan, const SessionOptions& options = {});
  Status try_bind(PlanPointer plan, const SessionOptions& options = {});  // may be refused
  Handle run(SessionState& session, const RunSpec& spec = {});
  Handle prepare(SessionState& session, bool fill_to_limit = false);
  void cancel(const Handle& handle);
  Handle set_limits(const arenas::BudgetLimits& limits);
  Handle evict(SessionState& session, ObjectId object);  // by its name
  Handle evict_all(SessionState& session);
  Handle trim(uint64_t bytes);
  Handle close(SessionState& session);

  // What was asked for since the last call: "read a0.0 critical", "promote a0.0 critical", "open a0.0 speculative",
  // "hurry a0.0" (an opened prepack was promoted), "publish a0" (its gate, also after a failure), "segment 1.0",
  // "evict a0"; "publish rows" for the gate of a table's slices or of a segment on the device; "device upload",
  // "device pack" or "device product" for a batch, by its last command; "withdraw a0.0" for a read, "take back 1.1" for
  // a segment; "keep a0" for an evicted object that stays; "hot 2" for a run that was claimed, "cold 2" for one that
  // was handed back.
  Log take_log();

  // In a fixed order.
  std::vector<Event> possible() const;
  void apply(const Event& event, std::optional<Error> error = {});
  // Until nothing can happen; `choose(n)` picks among n events.
  void drain(const std::function<size_t(size_t)>& choose);
  void drain();  // the first of them, always

  // One event by name. Each must be possible; chunk -1 is the oldest unfinished aux read.
  void read(SessionState& session, ObjectId object, int chunk = 0, std::optional<Error> error = {});
  void begin_read(SessionState& session, ObjectId object, int chunk = 0);  // it can't be withdrawn any more
  void start_pack(SessionState& session, ObjectId object, int chunk = 0);
  void finish_pack(SessionState& session, ObjectId object, int chunk = 0, std::optional<Error> error = {});
  void pack(SessionState& session, ObjectId object, int chunk = 0);
  void load(SessionState& session, ObjectId object);  // all its reads and prepacks
  void start_segment(const Handle& handle);
  void finish_segment(const Handle& handle, std::optional<Error> error = {});
  void segment(const Handle& handle);
  void begin_discard();  // of the oldest that has not begun: it can't stay any more
  void discard();        // the oldest
  void end_on_device(std::optional<Error> error = {});
  // A claimed run, by slot, is finished; the oldest one that is running.
  void start_hot() { apply({Event::Kind::start_hot, 0}); }
  void hand_back() { apply({Event::Kind::hand_back, 0}); }
  void finish_hot(std::optional<Error> error = {}) { apply({Event::Kind::finish_hot, hot_running_.at(0)}, error); }
  int published() const { return published_; }
  bool cold_lives() const { return cold_lives_; }  // as the scheduler was told

  store::Residency state(SessionState& session, ObjectId object) const { return session.store->state(object); }
  const arenas::Budget& budget() const { return budget_; }
  Policy& policy() { return *policy_; }
  int opened_unfinished() const;
  Outputs outputs;

 private:
  struct FakeLoad {
    bool created = false, opened = false, started = false;
    schedule::TaskClass task_class = schedule::TaskClass::speculative;
  };
  struct FakePublish {
    bool created = false;  // and not opened
    int named = 0;         // by segments that have not reported
  };
  struct FakeSegment {
    std::vector<schedule::PublishToken> named;
    const SessionState* session;
    CompletionRef handle;
    plan::SegmentId segment;
    uint32_t task;
    bool started = false, taken_back = false;
  };
  struct FakeDiscard {
    SessionState* session;
    ObjectId object;
    arenas::Allocation allocation;
    bool begun = false;
  };
  class FakeWork;

  // schedule::Scheduler
  schedule::Capabilities capabilities() const override {
    return {.name = "script", .overlap = true, .inline_reads = false, .shares_tiles = false, .max_tasks = 1 << 20};
  }
  int threads() const override { return options_.threads; }
  schedule::Counters counters() const override { return {}; }
  const char* scheduling_slice() const override { return "none"; }
  void post(const schedule::Message&) override {}
  void create_load(schedule::LoadToken load) override;
  void open_load(schedule::LoadToken load, schedule::TaskClass task_class) override;
  void promote_load(schedule::LoadToken load) override;
  void create_publish(schedule::PublishToken token) override;
  void publish(schedule::PublishToken token) override;
  void create_segment(schedule::SlotToken slot, std::span<const schedule::PublishToken> named) override;
  int take_back(schedule::SlotToken slot) override;
  bool critical_waiting() override;
  void publish_hot() override { ++published_; }
  void taken_hot() override { --published_; }
  bool run_on_caller(schedule::CallerBody, void*) override { return false; }
  void limit_hot(bool cold_lives) override { cold_lives_ = cold_lives; }

  // Effects
  void read(const ReadOrder& order) override;
  void promote_read(uint64_t id, Priority priority) override;
  bool withdraw_read(uint64_t id) override;
  bool discard(SessionState& session, ObjectId object, arenas::Allocation allocation) override;
  arenas::Allocation keep(SessionState& session, ObjectId object) override;
  void run_on_device(uint64_t id, std::vector<device::Command> commands) override;
  Observer& observer() override;
  int32_t executor() const override { return 0; }

  Handle ask(const std::function<void(Completion&)>& event);
  void check_limits();
  void claim_hot();
  bool leave_hot(size_t slot, std::optional<Error> error);
  void settle();  // the pump, then every invariant
  bool segment_ready(size_t slot) const;
  bool critical_dispatchable() const;
  void start_ready_segment(size_t slot);
  void finish_started_segment(size_t slot, std::optional<Error> error);
  void check_requirements(size_t slot);
  size_t slot_of(const Handle& handle);
  std::vector<ReadOrder>::iterator find_read(SessionState& session, ObjectId object, int chunk);
  std::string name(const SessionState* session, ObjectId object) const;
  std::string name(const SessionState* session, ObjectId object, int chunk) const;
  schedule::LoadToken token_of(SessionState& session, ObjectId object, int chunk) const;

  const WorldOptions options_;
  arenas::Budget budget_;
  arenas::BlockArena preparation_, execution_, io_;
  device::Arena device_;
  std::deque<uint64_t> there_;  // batches that the device has, oldest first
  std::vector<std::unique_ptr<SessionState>> sessions_;
  std::vector<bool> closed_;
  std::vector<Handle> asked_;         // for bytes back; the policy ends them
  std::vector<Handle> limits_asked_;  // not done
  arenas::BudgetLimits kept_to_;      // what must not be exceeded: a lowered limit may be until its handle is done
  std::vector<FakeLoad> loads_;
  std::vector<FakePublish> publishes_;
  std::vector<std::deque<FakeSegment>> chains_;  // by slot
  std::vector<ReadOrder> reads_;                 // unfinished, in the order of submission
  std::vector<uint64_t> begun_;                  // of them, those that a device has
  std::deque<FakeDiscard> discards_;
  bool withheld_ = false;
  bool cold_lives_ = false;
  int published_ = 0;
  std::vector<uint64_t> hot_running_;  // slots, in the order in which they were claimed
  std::deque<std::unique_ptr<Invocation>> on_its_way_back_;
  Log log_;
  std::unique_ptr<Policy> policy_;
};

Error io_error();  // as a device gives it

// Calls body(choose) until every sequence of choices has been taken, at most `limit` times; choose(n) is below n.
// Returns how often.
size_t every_order(const std::function<void(const std::function<size_t(size_t)>&)>& body, size_t limit);

}  // namespace ompipe::session::script
