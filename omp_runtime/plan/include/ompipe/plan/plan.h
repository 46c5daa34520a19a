// The immutable plan: which prepared objects a model needs, how each is made from payload bytes, and the order of its
// segments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ompipe/device/backend.h"
#include "ompipe/kernels/matmul.h"
#include "ompipe/model/resolved_model.h"
#include "ompipe/plan/device_rule.h"

namespace ompipe::plan {

using ObjectId = int32_t;
using SegmentId = int32_t;
using ActionId = int32_t;
using RangeId = int32_t;
inline constexpr int32_t kNone = -1;

// What the bytes of a prepared object are.
enum class ObjectKind : uint8_t {
  packed_matmul,  // B (with its scales and zero points) in a kernel's packed layout
  source_form,    // one payload as the file holds it: embedding tables, rotary caches, other large constants
  bundle,         // the small source-form payloads of one segment, coalesced
};

// Where an object's bytes lie in the end, and how they come there (design.md, "Recipes").
enum class Recipe : uint8_t {
  on_cpu,       // in the PreparedArena
  pack_upload,  // on the device: packed by the CPU into staging, uploaded as a whole
  upload_pack,  // on the device: each chunk uploaded as the file holds it, packed there as a whole
};

// One contiguous range of a file to be read, and where it lands in its staging block (or in the object, if there is
// none).
struct Read {
  int32_t file = kNone;  // index into the model's files
  uint64_t offset = 0, length = 0;
  uint64_t staging_offset = 0;
};

// A payload that takes part in an object.
struct Source {
  model::PayloadId payload = kNone;
  uint64_t staging_offset = 0;  // of its bytes as the file holds them: in the chunk's staging for a main source and for
                                // bundles (at the chunk's begin), in the aux staging for scales and zero points
  uint64_t decoded_offset =
      0;  // in the same staging, of its elements; equal to staging_offset where nothing has to be decoded
  uint64_t object_offset = 0;  // in the object (bundles and source form)
};

// A unit of reading and of packing: one load gate, one prepack task. Multiples of 1 MiB of the main source, the last
// one shorter. An object with a source that has to be decoded is one chunk, whole.
struct Chunk {
  std::vector<Read> reads;
  uint64_t begin = 0, end = 0;  // of the main source; the whole of a bundle's object
};

// A prepared object: identity, recipe, sizes. Requests with the same sources and layout share one.
struct PreparedObject {
  ObjectKind kind = ObjectKind::source_form;
  std::string name;  // of its main source, for people
  std::string key;   // ordered source lineage + layout + device
  Recipe recipe = Recipe::on_cpu;
  ObjectId other_side = kNone;  // of the same sources and layout, for the other side
  std::string layout_key;
  kernels::PackedLayout layout;  // packed_matmul only; of accuracy_level 0, whatever its nodes' (accuracy_level.h)
  // Of a packed_matmul on the CPU with float32 scales: the layout that it has instead where each of them is a float16,
  // which shows when they have been read. It differs in nothing but the packed bytes, and takes fewer.
  std::optional<kernels::PackedLayout> narrow;
  uint64_t bytes = 0;  // of the prepared form: of `layout`, the most that it can take
  std::vector<Source>
      sources;  // packed: B, scales, zero points if there are any; source form: one; bundle: its members
  std::vector<Read> aux_reads;  // read first, whole: scales and zero points
  uint64_t aux_staging_bytes = 0;
  std::vector<Chunk> chunks;         // at least one
  uint64_t chunk_staging_bytes = 0;  // of each chunk's block; 0: reads go straight to the object (source form as it is)
  uint64_t source_bytes = 0;         // file bytes of all its sources
  double prepack_ns = 0;             // predicted, all chunks together
  uint64_t device_source_bytes = 0;  // upload_pack: the sources' staging on the device, main source first
  std::vector<uint64_t> device_offsets;  // in it, by source
  bool row_addressable = false;          // an embedding table, or a packed weight that is one too
  std::vector<SegmentId> uses;           // ascending
  bool certain = true;                   // some segment that runs in any case uses it
};

// Where an input of a node comes from while it runs.
struct Operand {
  enum class Kind : uint8_t {
    absent,
    value,        // of the invocation's frame: `index` is a ValueId
    constant,     // `index` is an index into the model's constants
    source,       // bytes of a source-form payload at `offset` in object `index`
    packed,       // object `index`, whole, in its packed layout: a weight, or a table that shares its bytes with one;
                  // the node's scales and zero points are absent then
    overridable,  // the caller's value when it feeds one, else as `source`; `value` is the ValueId
  } kind = Kind::absent;
  int32_t index = kNone;
  uint64_t offset = 0;
  model::ValueId value = kNone;
};

// What an action does.
enum class Step : uint8_t {
  node,    // runs its node
  branch,  // of an If: chooses a branch
  yield,   // the end of a branch: gives the If's outputs
  enter,   // of a Loop: takes what it carries, and begins the body or goes past it
  repeat,  // the end of a Loop's body: hands on what it carries, and begins again or ends
};

// One step of the sequence.
struct Action {
  model::NodeId node = kNone;   // that it belongs to
  std::vector<Operand> inputs;  // of the node; of a yield or repeat: the outputs of its subgraph
  Step step = Step::node;
  RangeId range = kNone;  // of a yield or repeat: that it ends; of an enter: the body
  bool on_device = false;
};

// A branch of an If or the body of a Loop: segments that run when they are chosen, a Loop's as often.
struct Range {
  std::string name;  // of node and attribute
  model::NodeId owner = kNone;
  model::SubgraphId graph = kNone;
  RangeId parent = kNone;  // that it stands in
  bool loop = false;
  SegmentId begin = 0, end = 0;
  ActionId head = kNone, last = kNone;  // the owner's action, directly in front of an If's first branch or the body;
                                        // its own yield or repeat
};

// A requirement of which a segment looks at some rows only, which one graph input names: the recipe `rows`.
struct RowAccess {
  ObjectId object = kNone;                // row-addressable, used by one action of the segment
  model::ValueId indices = model::kNone;  // a graph input, int32 or int64
  int64_t rows = 0;                       // of each of the object's sources, which are cut into as many equal parts
};

// What crosses to the device at the border of a segment there.
struct Crossing {
  ActionId action = kNone;
  int32_t operand = 0;  // of the action's inputs; an output is the action's first
};

// A range of actions that runs as one task, once all its requirements are resident. All of them run on the CPU, or all
// on the device: uploads, the actions' kernels, readbacks, one batch in its queue.
struct Segment {
  std::string name;
  ActionId begin = 0, end = 0;
  std::vector<ObjectId> requirements;  // ascending, no repeats
  std::vector<RowAccess> rows;         // for requirements that have that recipe
  RangeId range = kNone;               // the innermost that it stands in
  std::vector<SegmentId> next = {};    // what follows, by the choice that it reports; empty: the next one
  SegmentId join = kNone;              // what runs in any case, the nearest; kNone: the next one
  std::vector<ObjectId> either = {};   // of an If: what both branches need in any case
  bool on_device = false;              // then it stands in no range
  std::vector<Crossing> uploads = {}, readbacks = {};  // inputs from outside, outputs used outside
};

// A value's life over the action sequence, for the frame's memory plan.
struct ValueLife {
  ActionId defined = kNone;   // kNone: fed or constant
  ActionId last_use = kNone;  // kNone: never used
  bool output = false;        // of the graph: lives in the IOArena
};

// The device that nodes have been placed on.
struct DeviceChoice {
  const device::Backend* backend = nullptr;  // asked while the plan is built, never later
  DevicePack pack = DevicePack::on_cpu;
  uint64_t memory_bytes = 0;  // that may be used: no segment's objects need more together
};

struct PlanOptions {
  uint64_t chunk_bytes = 2u << 20;  // a multiple of 1 MiB
  kernels::Isa isa = kernels::Isa::scalar;
  kernels::Tuning tuning = {};
  int max_large_objects = 4;                // of one segment
  uint64_t prepared_bytes = UINT64_MAX;     // may be resident: of one segment no more, unless one node needs it
  std::optional<DeviceChoice> device = {};  // there is one; without it no node may be placed there
  uint64_t bundle_limit_bytes = 64u << 10;
};

// What objects need to be loaded, as the arenas round it: their resident bytes, their aux staging and one chunk each. A
// segment's gang, when nothing is resident.
struct Gang {
  uint64_t prepared_bytes = 0, staging_bytes = 0;
  uint64_t device_bytes = 0;  // of device memory, with what it takes to pack there
  int32_t objects = 0;

  Gang& operator+=(const Gang& other);
};

// A node that runs on the CPU although the device was asked for, and why.
struct Refusal {
  model::NodeId node = kNone;
  std::string reason;
};

// Immutable after build_plan. Shared by sessions, invocations and the report; safe to read from any thread.
struct PreparedExecutionPlan {
  std::shared_ptr<const model::ResolvedModel> model;
  PlanOptions options;
  std::vector<PreparedObject> objects;  // in the order of their first use
  std::vector<Action> actions;
  std::vector<Segment> segments;
  std::vector<Gang> gangs;       // of each segment
  std::vector<ValueLife> lives;  // by ValueId
  std::vector<Range> ranges;     // an outer one before those in it
  Gang largest_gang;             // the maximum of each figure
  uint64_t packed_bytes = 0;     // of all objects on the CPU, rounded
  uint64_t device_bytes = 0;     // of all objects on the device, rounded
  uint64_t source_bytes = 0;
  std::string device;            // the behaviour of the device, as in keys; empty: there is none
  int device_actions = 0;        // that run on it
  std::vector<Refusal> refused;  // nodes that were asked for there and run on the CPU, in order

  bool uses_device() const { return device_actions > 0; }
  bool flows() const { return !ranges.empty(); }
  // What runs after a segment that has reported this choice; segments.size() at the end.
  SegmentId after(SegmentId segment, int32_t chosen) const;
  // Whether that is known only from its report.
  bool chooses(SegmentId segment) const { return segments[size_t(segment)].next.size() > 1; }
  // The nearest segment behind it that runs in any case; segments.size(): none.
  SegmentId join(SegmentId segment) const;

  // The first segment at or after `from` that uses the object; kNone when no later one does.
  SegmentId next_use(ObjectId object, SegmentId from) const;
  // The payload of an object's source. The first is what the object's chunks are cut from; of a bundle a member.
  const model::Payload& source_payload(ObjectId object, size_t source) const;
  const model::Payload& main_payload(ObjectId object) const { return source_payload(object, 0); }
};

// Builds the plan of a frozen model. Errors: bad_model when an operator's weights can't be prepared as asked, usage
// when chunk_bytes isn't a positive multiple of 1 MiB.
Result<std::shared_ptr<const PreparedExecutionPlan>> build_plan(std::shared_ptr<const model::ResolvedModel> model,
                                                                const PlanOptions& options);

// What one object needs.
Gang gang_of(const PreparedObject& object);

}  // namespace ompipe::plan
