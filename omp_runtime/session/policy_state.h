// What the policy knows of sessions, objects, loads, invocations and preparations. Changed in its serial context only,
// but for the fields that say otherwise.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "body_clock.h"
#include "completion.h"
#include "eviction_index.h"
#include "hot_gate.h"
#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/window.h"
#include "ompipe/device/arena.h"
#include "ompipe/exec/frame.h"
#include "ompipe/io/payload.h"
#include "ompipe/plan/plan.h"
#include "ompipe/schedule/limits.h"
#include "ompipe/schedule/scheduler.h"
#include "ompipe/session/observer.h"
#include "ompipe/session/options.h"
#include "ompipe/store/prepared_store.h"
#include "program_counter.h"
#include "window.h"

namespace ompipe::session {

struct SessionState;
struct Invocation;

inline arenas::DomainBytes sum_of(arenas::DomainBytes bytes, const arenas::DomainBytes& more) {
  for (const arenas::Domain domain : arenas::kDomains) bytes[domain] += more[domain];
  return bytes;
}
inline arenas::DomainBytes without(arenas::DomainBytes bytes, const arenas::DomainBytes& part) {
  for (const arenas::Domain domain : arenas::kDomains) bytes[domain] -= part[domain];
  return bytes;
}

// The work of an invocation that is not policy: its frame. Faked by scripted tests.
class InvocationWork {
 public:
  virtual ~InvocationWork() = default;
  virtual uint64_t execution_bytes() const = 0;
  virtual std::span<const uint64_t> output_bytes() const = 0;  // 0: nothing to allocate for that output
  // Before the first segment. `outputs` is parallel to output_bytes().
  virtual void attach(arenas::Allocation block, std::vector<arenas::Allocation> outputs) = 0;
  // Whether the segment may lack memory. After its report: what it lacks; once it has that it goes on as another task.
  virtual bool may_grow(plan::SegmentId) const { return false; }
  virtual exec::MemoryWanted wanted() const { return {}; }
  virtual void grow(const exec::MemoryWanted&, arenas::Allocation) {}
  // The same for its bytes on the device, if it needs any; and what a segment there does, which it does in that memory.
  virtual uint64_t device_bytes() const { return 0; }
  virtual void attach_device(device::Memory) {}
  virtual void device_commands(plan::SegmentId, const store::PreparedStore&, std::vector<device::Command>&) {}
  // After the last one has reported, whatever happened: the outputs go to the caller if it succeeded. Its memory goes
  // back when it is destroyed.
  virtual void finish(bool succeeded) = 0;
};

// What it takes of the ExecutionArena, the IOArena and the device, as these round it.
arenas::DomainBytes memory_of(const InvocationWork& work);

// The recipe `rows` of one segment's table: of each source of the object the digest slices that hold the rows asked
// for, read to their own places in a window, each checked against its hash. Nothing becomes resident.
struct RowFetch {
  struct Slice {
    size_t source = 0;                  // of the object
    uint64_t index = 0;                 // in that source's payload
    const io::Hash128* hash = nullptr;  // expected of it; null under --verify never
  };
  plan::SegmentId segment = -1;
  plan::ObjectId object = -1;
  std::vector<Slice> slices;  // by source, then ascending; set at submission
  // While its segment is live, and longer if that is taken back: until what is on its way has arrived.
  Invocation* invocation = nullptr;     // whose segment waits; null: nobody's, what is on its way is thrown away
  schedule::PublishToken token = -1;    // -1: not used
  arenas::Reservation reservation;      // the slices' bytes, in the PreparationArena
  std::vector<arenas::Window> windows;  // one for each source
  size_t next = 0, done = 0;
  int live_loads = 0;
  std::optional<Error> error;

  uint64_t staging_bytes() const { return slices.size() * io::kSliceBytes; }
};

struct Invocation {
  SessionState* session = nullptr;
  std::unique_ptr<InvocationWork> work;
  CompletionRef completion;
  uint64_t age = 0;
  bool refuse_without_slot = false;  // as its caller chose
  int left_slot = -1;                // the hot slot that handed it over, held until the policy has it; -1: none
  schedule::SlotToken slot = -1;     // -1: pending
  ProgramCounter counter;            // of the segments that have been created
  uint32_t done = 0;                 // tasks that have reported
  uint64_t step_offset = 0;          // the session's clock when it started
  plan::SegmentId looked_ahead = 0;
  uint64_t evictions_seen = 0;
  struct LiveSegment {
    plan::SegmentId segment = -1;
    std::vector<schedule::PublishToken> named;
    uint32_t task = 0;                 // of the invocation's, from 0
    int64_t trip = -1;                 // the pass of the innermost Loop around it; -1: there is none
    schedule::PublishToken gate = -1;  // of a segment on the device: closed until it has ended there
  };
  std::vector<RowFetch> rows;     // of its tables, in the order of segments; never resized after submission
  std::vector<LiveSegment> live;  // at most schedule::kSegmentsAhead, oldest first; those taken back are not
  std::optional<Error> error;     // it ends when the segment that has begun reports

  // Shared with the bodies of its chain, which run one after the other.
  std::atomic<bool> suppressed{false};  // a body has failed: those after it do nothing
  uint32_t next_to_run = 0;             // task
  // Of task t at t % kSegmentsAhead. Written before its creation:
  std::array<plan::SegmentId, schedule::kSegmentsAhead> segments{};
  // Written by its body, read after it has reported.
  std::array<int32_t, schedule::kSegmentsAhead> chosen{};
  std::array<std::optional<Error>, schedule::kSegmentsAhead> body_errors;
  std::array<BodyTimes, schedule::kSegmentsAhead> times;
  uint64_t ready_since_ns = 0;  // the chain's last end, or its start
};

struct ObjectRef {
  SessionState* session;
  plan::ObjectId object;

  bool operator==(const ObjectRef&) const = default;
};

// A caller who has asked for bytes back, and waits until they are.
struct Release {
  Completion* done = nullptr;            // the caller's
  std::vector<ObjectRef> leaving;        // whose pages have to go first
  bool limits = false;                   // and until what is live is within the limits in force
  std::optional<uint64_t> down_to = {};  // and what is counted has been looked at once more
};

struct Preparation {
  SessionState* session = nullptr;
  CompletionRef completion;
  bool started = false;  // its bytes are reserved; no longer once they were withdrawn for a refused gang
  bool fill_to_limit = false;
  std::vector<bool> wanted;        // by object: absent when it last started, and not settled since
  std::vector<bool> settled;       // by object: published once since it first started, or failed
  std::vector<bool> reserved_for;  // by object: its prepared bytes are in `reservation`
  size_t outstanding = 0;          // objects wanted
  plan::ObjectId cursor = 0;
  arenas::Reservation reservation;
  std::optional<Error> error;
};

// Policy's side of a prepared object; residency is the store's.
struct ObjectState {
  int pins = 0;                       // live segments that need it
  schedule::PublishToken token = -1;  // of its closed publish gate
  Priority original = Priority::background, priority = Priority::background;
  uint32_t next_chunk = 0, packed = 0;
  int live_loads = 0, aux_pending = 0;
  uint32_t first_read = 0;  // sequence number of its aux reads
  arenas::Allocation aux;
  arenas::Allocation upload;                   // packed by the CPU, on its way to the device
  device::Memory sources;                      // on the device, until they are packed there
  plan::Recipe recipe = plan::Recipe::on_cpu;  // of the load under way: the plan's, or the dormant one
  // Until it is visible, of an object with a dormant recipe: that recipe's bytes, and a chunk's token with its block.
  arenas::Reservation dormant;
  schedule::LoadToken spare = -1;
  bool falls_back = false;  // doomed, to be loaded once more by its dormant recipe
  int transfers = 0;        // its last batch is unfinished
  // Loaded together with its form for the other side: the CPU's has the reads and leads, the device's rides.
  plan::ObjectId leader = -1, rider = -1;
  std::optional<Error> error;
  std::string failed_in;   // with a space behind it
  bool abandoned = false;  // nobody wants its load any more; whoever asks for it may have it, unless it is doomed
  bool doomed = false;     // its load failed or has lost a read: it ends when all that is on its way has reported
  bool ahead = false;      // read by look-ahead, and no segment that needs it has been created since
  uint64_t last_use = 0;
  bool loaded_before = false;
  uint64_t evicted_ns = 0;
  uint64_t evicted_for = 0;  // the age up to which an invocation may have it back while its discard has not begun
};

struct SessionState {
  SessionState(std::shared_ptr<const plan::PreparedExecutionPlan> plan, const SessionOptions& options,
               std::unique_ptr<store::PreparedStore> store);

  // What it takes to load one object: its resident bytes, aux staging, one chunk (a block, or a mapping), what it takes
  // on its way to the device.
  arenas::DomainBytes need_of(plan::ObjectId object) const;
  // Of that, all but what its reads need: staging of chunks and aux.
  arenas::DomainBytes need_beside_reads(plan::ObjectId object) const;
  // Of that, what only its dormant recipe needs: what the device packs can be packed by the CPU instead.
  arenas::DomainBytes dormant_of(plan::ObjectId object) const;
  // Of that, what stays.
  arenas::DomainBytes resident_of(plan::ObjectId object) const;
  bool on_device(plan::ObjectId object) const { return plan->objects[size_t(object)].recipe != plan::Recipe::on_cpu; }
  EvictionIndex& evictable_of(plan::ObjectId object) { return on_device(object) ? evictable_there : evictable; }
  bool reads_mapped(plan::ObjectId object) const;

  const std::shared_ptr<const plan::PreparedExecutionPlan> plan;
  const SessionOptions options;
  const std::unique_ptr<store::PreparedStore> store;
  arenas::DomainBytes largest_gang;  // of each domain
  uint64_t largest_gang_total = 0;   // of one segment, without mapped
  std::vector<ObjectState> objects;
  EvictionIndex evictable, evictable_there;  // objects on the CPU, and on the device
  bool index_stale = false;                  // keys must be computed anew before the next eviction
  uint64_t clock = 0;                        // segments, in the pace of its foremost invocation
  uint64_t evictions = 0;
  Window window;
  arenas::DomainBytes ahead_bytes;  // resident, of objects that are `ahead`
  int kept = 0;                     // > 0: nothing of it may be evicted
  int live_invocations = 0, pending = 0, preparations = 0, in_flight = 0, leaving = 0;
  size_t resident = 0;
  bool fully_prepared = false;
  Completion* closing = nullptr;

  uint32_t instance = 0;     // of the session in its runtime, from 1
  HotGate gate;              // open while everything is resident; any thread
  bool gate_held = false;    // closed for a gang that its hot runs stand in the way of, in this pump
  bool passed_over = false;  // by the eviction that is under way
  bool hot_live = false;     // a hot run of it is published, runs, or is expected: as evicting last saw it
  uint64_t hot_seen_ns = 0;  // the end of the last hot run that its clock has counted
};

// One chunk on its way. Serial context, but while its prepack runs (from open_load to its report) that body reads it,
// and while its reads are submitted the I/O threads read the names and write `mapped`.
struct Load {
  SessionState* session = nullptr;  // null: the token is free
  plan::ObjectId object = -1;
  uint32_t chunk = 0;
  plan::ObjectId rider = -1;  // what is made of the same bytes for the device
  RowFetch* rows = nullptr;   // null: a chunk of the object; else `chunk` is the index of a slice in its payload
  size_t slice = 0;           // that slice's place in `rows`
  arenas::Allocation block;
  arenas::Reservation mapped_reservation;
  io::MappedBytes mapped;
  int reads_pending = 0;
  uint32_t first_read = 0;  // sequence number of its reads
  bool ready = false;       // arrived, or nothing to arrive any more: its gate may open
  bool opened = false;
  bool noop = false;       // written before the gate opens
  bool uploading = false;  // its prepack has reported; its bytes are on their way to the device, or it is a spare
  Priority original = Priority::background, effective = Priority::background;
  uint64_t bytes = 0, opened_ns = 0;
  // Written by the body, read after it has reported.
  std::optional<Error> error;
  BodyTimes times;
};

// One batch for the device, from when it could run to its end.
struct DeviceWork {
  enum class Kind : uint8_t {
    chunk,    // of an object that is packed there: its source bytes
    object,   // the last of an object: its packed bytes, or its packing
    segment,  // of an invocation
  } kind = Kind::segment;
  uint64_t id = 0;
  SessionState* session = nullptr;
  plan::ObjectId object = -1;
  schedule::LoadToken load = -1;
  schedule::SlotToken slot = -1;
  std::vector<device::Command> commands = {};
  bool handed_over = false;
  uint64_t queued_ns = 0;
};

}  // namespace ompipe::session
