// The policy: one serial state machine for admission, residency, priority, look-ahead, failure and completion. No
// thread, no lock, no OpenMP: events come in as calls in a scheduler's serial context, actions go out through the
// scheduler and Effects.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hot_slots.h"
#include "policy_state.h"

namespace ompipe::session {

// One read that the policy wants. `id` comes back with read_done.
struct ReadOrder {
  uint64_t id = 0;
  SessionState* session = nullptr;
  plan::ObjectId object = -1;
  int32_t chunk = -1;  // -1: aux
  plan::Read read;
  std::byte* destination = nullptr;  // null: map it
  Priority priority = Priority::background;
  uint64_t plan_position = 0;
};

// What the policy asks of the world beside the scheduler. Must not call back.
class Effects {
 public:
  virtual ~Effects() = default;
  virtual void read(const ReadOrder& order) = 0;
  virtual void promote_read(uint64_t id, Priority priority) = 0;
  // Takes back a read that is still queued: read_done won't come for it. False: it will.
  virtual bool withdraw_read(uint64_t id) = 0;
  // Gives an evicted object's pages back: at once (true), or on another thread, followed by the event `discarded`
  // (false).
  virtual bool discard(SessionState& session, plan::ObjectId object, arenas::Allocation allocation) = 0;
  // Takes back what `discard` is yet to give back, if that has not begun: `discarded` won't come. Else none.
  virtual arenas::Allocation keep(SessionState& session, plan::ObjectId object) = 0;
  // Gives the device a batch, which is followed by the event `device_done`. Only where a session uses one.
  virtual void run_on_device(uint64_t id, std::vector<device::Command> commands) = 0;
  virtual Observer& observer() = 0;
  virtual int32_t executor() const = 0;
};

struct PolicyOptions {
  int threads = 1, io_threads = 2;
  int load_tokens = schedule::kDefaultLoadTokens, publish_tokens = schedule::kDefaultPublishTokens;
  bool hot = false;        // what has everything resident runs hot
  int device_batches = 0;  // unfinished on the device at most
};

struct PolicyCounters {
  uint64_t promotions = 0, peak_bytes_in_flight = 0, evictions = 0, rematerialised = 0, fallbacks = 0, abandoned = 0,
           kept = 0;
  uint64_t replaced = 0;      // evicted for look-ahead
  uint64_t shared_loads = 0;  // of an object for both sides
  uint64_t device_batches = 0, uploaded_bytes = 0, read_back_bytes = 0;
};

class Policy {
 public:
  Policy(const PolicyOptions& options, arenas::Budget& budget, arenas::BlockArena& preparation,
         arenas::BlockArena& execution, arenas::BlockArena& io, Effects& effects, device::Arena* device = nullptr);
  ~Policy();

  // Once, before the first event.
  void set_scheduler(schedule::Scheduler& scheduler) { scheduler_ = &scheduler; }

  // Events. All in the serial context; each is followed, sooner or later, by pump().
  // Refused (cannot_fit, with the numbers), and then not bound, if the session's largest gang alone exceeds a limit:
  // not even its smallest run could start, nor anybody else's beside it.
  Status bind(SessionState& session);
  void close(SessionState& session,
             Completion& done);  // completes once nothing of the session is in flight; its bytes are back
  void submit(std::unique_ptr<Invocation> invocation);
  void prepare(std::unique_ptr<Preparation> preparation);
  void cancel(Completion& handle);
  // Requests for bytes back: each ends `done` with a refusal at once, or when they are back. See session.h and
  // runtime.h, whose functions they are.
  void evict_named(SessionState& session, const std::string& object, Completion& done);  // by key, or by name
  void evict_all(SessionState& session, Completion& done);
  void trim(uint64_t bytes, Completion& done);
  void set_limits(const arenas::BudgetLimits& limits, Completion& done);
  void read_done(uint64_t id, std::optional<Error> error);
  void prepacked(schedule::LoadToken token);
  void segment_done(schedule::SlotToken slot);
  void discarded(SessionState& session, plan::ObjectId object);
  void device_done(device::Event event);
  void pump();

  // Shared with the threads that run hot; any thread.
  HotShared& hot() { return hot_; }

  // For bodies, on compute threads, while their task is opened and unreported.
  Load& load(schedule::LoadToken token) { return loads_[size_t(token)]; }
  Invocation& invocation(schedule::SlotToken slot) { return *slots_[size_t(slot)].invocation; }
  // What a read that is unreported was submitted for.
  struct ReadTarget {
    SessionState* session;
    plan::ObjectId object;
    int32_t chunk;  // -1: aux
  };
  ReadTarget read_target(uint64_t read_id) const;
  // An event of the serial context about an object, with an id of its own; whoever tells it fills in times, bytes, and
  // what differs.
  TaskEvent object_event(TaskKind kind, const SessionState& session, plan::ObjectId object);
  static bool is_aux(uint64_t read_id) { return read_id >> 63; }
  static int32_t token_of(uint64_t read_id) { return int32_t(read_id >> 32 & 0x7fffffff); }

  // Whether an invocation that takes this memory can ever run in the session, under these limits; cannot_fit with the
  // numbers.
  static Status fits(const arenas::BudgetLimits& limits, const SessionState& session,
                     const arenas::DomainBytes& memory);
  PolicyCounters counters() const { return counters_; }
  // Empty when nothing is live: tokens, pins, loads, invocations. Serial context.
  std::string audit() const;

 private:
  enum class Grant : uint8_t { granted, refused };
  using InFlight = ObjectRef;
  // A publish token in use: free again once its gate is open and nobody names it.
  struct PublishGate {
    SessionState* session = nullptr;  // null: rows
    plan::ObjectId object = -1;
    bool used = false, closed = false;
    int named = 0;  // by unreported segments, taken back or not
  };
  // A slot is free again once what was taken back of its last invocation has reported too.
  struct Slot {
    Invocation* invocation = nullptr;
    SessionState* session = nullptr;                              // of those taken back
    std::vector<std::vector<schedule::PublishToken>> taken_back;  // unreported, oldest first: the gates they name
  };

  void aux_arrived(SessionState& session, plan::ObjectId object, const std::optional<Error>& error);
  void arrived(SessionState& session, plan::ObjectId object, const std::optional<Error>& error);

  // invocations.cpp
  void refuse(std::unique_ptr<Invocation> invocation, Status status);
  Status find_slot(const Invocation& invocation) const;
  void start_invocations();
  enum class Start : uint8_t { pending, live, hot, failed };
  Start start(Invocation& invocation);
  bool create_segments();
  struct SegmentNeed {
    size_t missing = 0;  // tokens of each pool
    size_t gates = 0;    // publish tokens beside
    arenas::DomainBytes gang;
  };
  // The gang that was refused last, until segments are created again.
  struct Refused {
    const SessionState* session;
    plan::SegmentId segment;
    SegmentNeed need;
  };
  std::optional<SegmentNeed> need_of(Invocation& invocation, const plan::Segment& segment);
  void pin(SessionState& session, const plan::Segment& segment);
  void unpin(SessionState& session, const plan::Segment& segment);
  Grant create_segment(Invocation& invocation);
  void name(Invocation::LiveSegment& segment, schedule::PublishToken token);
  void end_segment(Invocation& invocation);
  void fail(Invocation& invocation, const Error& error, const std::string& task);
  void take_back(Invocation& invocation);
  void taken_back_done(schedule::SlotToken slot);
  void free_slot(schedule::SlotToken slot);
  void finish(Invocation& invocation);
  void note_segment(Invocation& invocation, const Invocation::LiveSegment& reported);

  // hot.cpp
  void arm(SessionState& session);
  void arm_gates();
  int take_hot_slot(const SessionState& session);
  void publish_hot(Invocation& invocation, int slot);
  void keep_frame(Invocation& invocation);
  bool trim_idle();
  void empty_slots(const SessionState& session);
  bool hot_busy(const SessionState* session);
  bool look_again();
  bool close_gate(SessionState& session);
  void see_hot_runs(SessionState& session);

  // preparations.cpp
  void serve_preparations();
  static Status fits(const arenas::BudgetLimits& limits, const Preparation& preparation);
  bool start(Preparation& preparation);
  bool admit_alone(SessionState& session, plan::ObjectId object);
  void advance(Preparation& preparation);
  void restart(Preparation& preparation);
  bool withdraw_preparations();
  bool nothing_under_way();
  void object_settled(SessionState& session, plan::ObjectId object, const std::optional<Error>& error);
  bool finish_preparations();
  Preparation* reserved_by(const SessionState& session, plan::ObjectId object) const;
  arenas::Reservation take_reserved(const SessionState& session, plan::ObjectId object);

  // admission.cpp
  Grant admit(SessionState& session, plan::ObjectId object, Priority priority, arenas::Reservation reservation);
  plan::ObjectId join(SessionState& session, plan::ObjectId object, arenas::Reservation& reservation);
  void begin_load(SessionState& session, plan::ObjectId object, Priority priority, arenas::Reservation& reservation);
  void submit_first(SessionState& session, plan::ObjectId object, schedule::LoadToken token, arenas::Allocation block,
                    arenas::Reservation mapped);
  bool speculative_tokens() const;
  Grant admit_speculative(SessionState& session, plan::ObjectId object, Priority priority);
  void submit_chunk(SessionState& session, plan::ObjectId object, schedule::LoadToken token, arenas::Allocation block,
                    arenas::Reservation mapped);
  void top_up_chunks();
  bool add_chunk(const InFlight& item);
  void raise(SessionState& session, plan::ObjectId object, Priority priority);

  // window.cpp
  void look_ahead();
  void look_ahead(Invocation& invocation);
  bool residency_limited(const SessionState& session) const;
  plan::SegmentId window_end(const Invocation& invocation) const;
  Grant admit_ahead(Invocation& invocation, plan::SegmentId segment, plan::ObjectId object);
  bool residency_full(const arenas::DomainBytes& need) const;
  bool make_room_ahead(const Invocation& invocation, const arenas::DomainBytes& need);
  void reached(SessionState& session, plan::ObjectId object);
  void see_wait(const Invocation& invocation);

  void look_ahead_over(Invocation& invocation);  // flow_ahead.cpp

  // growth.cpp
  Status room_for(const arenas::DomainBytes& memory);
  arenas::DomainBytes live_beside_gangs() const;
  bool goes_on(Invocation& invocation, Invocation::LiveSegment& reported);
  std::optional<Error> grow(Invocation& invocation, const exec::MemoryWanted& wanted);

  // rows.cpp
  RowFetch* rows_for(Invocation& invocation, plan::ObjectId object);
  void start_rows(Invocation& invocation, RowFetch& fetch, arenas::Reservation reservation);
  void submit_slice(SessionState& session, RowFetch& fetch, schedule::LoadToken token);
  void top_up_rows();
  void slice_packed(schedule::LoadToken token);
  void settle_rows(SessionState& session, RowFetch& fetch);
  void withdraw_rows(const RowFetch& fetch);
  void abandon_rows(Invocation& invocation, plan::SegmentId segment);
  void end_rows(RowFetch& fetch);

  // device_work.cpp
  bool upload_chunk(schedule::LoadToken token);
  bool finish_on_device(SessionState& session, plan::ObjectId object);
  void device_failed(SessionState& session, plan::ObjectId object, const Error& error, const char* task);
  void fall_back(SessionState& session, plan::ObjectId object);
  bool run_on_device(Invocation& invocation);
  void queue_device_work(DeviceWork work);
  void hand_over_device_work();
  bool is_given_up(const DeviceWork& work) const;
  void end_device_work(const DeviceWork& work, const std::optional<Error>& error);
  Priority priority_of(const DeviceWork& work) const;
  void note_transfer(const DeviceWork& work, const device::Event& event);

  // gates.cpp
  bool is_doomed(const Load& load) const;
  Priority priority_of(const Load& load) const;
  void make_ready(schedule::LoadToken token);
  void open_gates();
  void chunk_done(schedule::LoadToken token);
  void publish(SessionState& session, plan::ObjectId object);
  void finish_rider(SessionState& session, plan::ObjectId leader);
  void make_visible(SessionState& session, plan::ObjectId object, uint64_t start_ns);
  void note_prepack(const Load& load);
  void free_load(schedule::LoadToken token);
  void free_dormant(ObjectState& object);
  schedule::PublishToken take_publish(SessionState* session, plan::ObjectId object);
  void open_publish(schedule::PublishToken token);
  void release_publish(schedule::PublishToken token);
  void forget_in_flight(SessionState& session, plan::ObjectId object);

  // abandon.cpp
  void object_failed(SessionState& session, plan::ObjectId object, const Error& error, const char* task = "prepack ");
  void doom(SessionState& session, plan::ObjectId object);
  bool withdraw_reads(SessionState& session, plan::ObjectId object);
  bool withdraw_load(schedule::LoadToken token, size_t reads);
  void settle(SessionState& session, plan::ObjectId object);
  static std::string failed_task(const SessionState& session, plan::ObjectId object);
  void fail_waiting(SessionState& session, plan::ObjectId object);
  bool is_leaving(const SessionState& session, plan::ObjectId object) const;
  bool is_wanted(const SessionState& session, plan::ObjectId object) const;
  void abandon(SessionState& session, plan::ObjectId object);
  void abandon_unwanted(SessionState& session);
  void revive(SessionState& session, plan::ObjectId object);

  // make_way.cpp
  struct Room {
    arenas::DomainBytes bytes;
    size_t loads = 0, publishes = 0;  // tokens
    Room& operator+=(const Room& other);
  };
  void make_way();
  bool is_refused(const SessionState& session, plan::ObjectId object) const;
  Room room_of(const InFlight& item) const;
  bool suffices(const Room& coming, const arenas::DomainBytes& evictable) const;
  bool has_arrived(const InFlight& item) const;
  void give_up(const InFlight& item);

  // eviction.cpp. For whom an evicted object may stay if it is asked for before its pages go: the invocation of that
  // age, for whose gang it was chosen, and elders.
  static constexpr uint64_t kNobody = 0, kAnybody = UINT64_MAX;
  std::optional<arenas::Reservation> reserve_with_trim(const arenas::DomainBytes& gang);
  arenas::DomainBytes live_with(const arenas::DomainBytes& gang) const;
  bool trim_helps(const arenas::DomainBytes& gang) const;
  std::optional<arenas::Reservation> reserve_with_eviction(const arenas::DomainBytes& gang, uint64_t age = kAnybody);
  bool eviction_helps(const arenas::DomainBytes& gang) const;
  bool leaving_suffices(const arenas::DomainBytes& gang) const;
  bool eviction_suffices(const arenas::DomainBytes& gang) const;
  arenas::DomainBytes evictable_bytes() const;
  bool fits_without(const arenas::DomainBytes& gang, const arenas::DomainBytes& leaving) const;
  static EvictionIndex& evictable_of(SessionState& session, arenas::Domain domain);
  SessionState* farthest_session(arenas::Domain domain);
  arenas::Domain short_of(const arenas::DomainBytes& gang) const;
  uint64_t evict_one(arenas::Domain domain, uint64_t age, bool insists = true);
  uint64_t evict(SessionState& session, plan::ObjectId object, uint64_t age);
  uint64_t eviction_key(const SessionState& session, plan::ObjectId object) const;
  void refresh_index(SessionState& session);
  void used(SessionState& session, plan::ObjectId object);
  void leaves(SessionState& session, plan::ObjectId object);
  void has_left(SessionState& session, plan::ObjectId object);
  bool keep(SessionState& session, plan::ObjectId object, uint64_t age);
  void close_idle_sessions();

  // release.cpp
  Status may_evict(const SessionState& session, plan::ObjectId object) const;
  void evict_idle(SessionState& session, const std::vector<plan::ObjectId>& objects, Completion& done);
  void shrink(uint64_t bytes);
  void finish_releases();

  // limits.cpp
  Status suffice(const arenas::BudgetLimits& limits, const arenas::DomainBytes& live) const;
  bool within_limits();
  void keep_to_limits();

  // Reads of one submission have consecutive sequence numbers, so that the first one names them all.
  static uint64_t read_id(bool aux, int32_t token, uint32_t sequence) {
    return uint64_t(aux) << 63 | uint64_t(token) << 32 | sequence;
  }
  void submit_reads(SessionState& session, plan::ObjectId object, int32_t chunk, int32_t token,
                    const std::vector<plan::Read>& reads, std::byte* destination);
  void promote_reads(bool aux, int32_t token, uint32_t first, size_t count, Priority priority);
  uint64_t plan_position(const SessionState& session, plan::ObjectId object) const;
  void count_in_flight(int64_t bytes);
  static int32_t take(std::vector<int32_t>& tokens);  // of a pool that isn't empty

  const PolicyOptions options_;
  arenas::Budget& budget_;
  arenas::BlockArena &preparation_, &execution_, &io_;
  Effects& effects_;
  device::Arena* const device_;  // null: no session uses one
  schedule::Scheduler* scheduler_ = nullptr;
  const size_t chunk_window_;     // loads in flight beyond which no object takes a second chunk
  const size_t reserved_tokens_;  // of each pool, that only critical work may take

  std::vector<SessionState*> sessions_;
  std::vector<std::unique_ptr<Invocation>> live_, pending_;  // by age
  std::vector<std::unique_ptr<Preparation>> preparations_;
  std::vector<Release> releases_;
  std::vector<Load> loads_;
  std::vector<Slot> slots_;
  std::vector<PublishGate> publishes_;              // by publish token
  std::vector<std::vector<RowFetch>> orphan_rows_;  // of ended invocations, with reads on their way
  std::vector<InFlight> in_flight_;  // admitted, and neither published nor given up; in the order of admission
  std::vector<schedule::LoadToken> free_loads_, ready_;  // ready_: arrived, gate closed
  std::vector<schedule::PublishToken> free_publishes_;
  std::vector<schedule::SlotToken> free_slots_;
  std::optional<Refused> refused_;
  int open_ = 0;  // opened prepacks that have not reported, no-ops apart
  uint64_t bytes_in_flight_ = 0, last_task_ = 0;
  std::vector<ObjectRef> leaving_;       // evicted or given up, with pages that are being given back
  uint64_t leaving_bytes_ = 0;           // prepared, of these
  std::vector<DeviceWork> device_work_;  // unfinished, in the order in which it could run
  int on_device_ = 0;                    // of it, handed over
  uint64_t last_device_work_ = 0;
  uint64_t device_block_bytes_ = 0;  // of live invocations
  uint32_t sequence_ = 0;
  PolicyCounters counters_;
  HotShared hot_;
  bool hot_blocked_ = false;  // something was refused that a hot run may hold
  bool cold_lives_ = false;   // as the scheduler was told
  uint32_t last_instance_ = 0;
};

}  // namespace ompipe::session
