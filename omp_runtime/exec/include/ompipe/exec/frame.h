// The state of one invocation: shapes and memory plan of a plan's values, and the running of its segments.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/device/arena.h"
#include "ompipe/exec/context.h"
#include "ompipe/exec/tensor.h"
#include "ompipe/exec/tile_runner.h"
#include "ompipe/plan/plan.h"

namespace ompipe::exec {

// The bytes of prepared objects. The caller of run_segment guarantees that the segment's requirements are resident, or
// lie there by rows, and stay so (pinned) until it returns; no other object is asked for.
class ObjectTable {
 public:
  virtual ~ObjectTable() = default;
  // Of an object that is resident.
  virtual const std::byte* bytes(plan::ObjectId object) const = 0;
  // Whether these bytes are in the object's narrow layout. Asked after bytes(), by the same thread: what shows it the
  // bytes shows it this.
  virtual bool narrow(plan::ObjectId object) const = 0;
  // Where the object's source of that index lies in the file's form, with the rows that the segment looks at in their
  // places (recipe `rows`). Null: the object is there as a whole.
  virtual const std::byte* rows(plan::ObjectId, size_t /*source*/) const { return nullptr; }
  // Of an object that is resident on the device; a table without a device has none.
  virtual device::Address on_device(plan::ObjectId) const { return device::Address::none; }
};

// Memory that a segment lacks, for shapes that it found while it ran.
struct MemoryWanted {
  int32_t output = -1;  // the graph output that it is for; -1: what the run itself needs
  uint64_t bytes = 0;   // that would do for some time; 0: nothing is wanted
  uint64_t least = 0;   // that would do now
};

struct FrameState;  // private

// Order of calls: bind, attach, run_segment for the first segment and each that follows, finish; then bind again, with
// the same memory, or detach. After an error: let_go or detach. A second round allocates nothing while shapes, names
// and numbers of inputs stay within what an earlier one needed. Thread rule: one thread at a time; different frames are
// independent.
class Frame {
 public:
  // `workers`: what the runners of this frame will say; the execution block holds scratch for each.
  // `backend`: that of the plan's device; null where no node is on one; else it outlives the frame.
  Frame(std::shared_ptr<const plan::PreparedExecutionPlan> plan, int workers, const device::Backend* backend = nullptr);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // Checks the inputs and caches of `context`, computes all shapes and places all values; where only addresses differ
  // from the last context bound, it takes those and nothing else. The context keeps inputs and caches until finish.
  // Errors: usage (phase "bind", subject the input): unknown, missing or twice given name, dtype, shape, cache; each
  // says what was expected and what was found. bad_model where a shape depends on data.
  Status bind(const RuntimeContext& context);

  // After bind: bytes of the execution block (activations, workspaces, scratch of every worker), to be aligned at 64.
  uint64_t execution_bytes() const;
  // After bind, by graph output: bytes to be allocated for it, aligned at 64. 0: none, because nobody wants it, it lies
  // in a bound cache, it is empty, or it shares its bytes with an input, a constant or an earlier output.
  std::span<const uint64_t> output_bytes() const;
  // After bind: bytes on the device, for one of its segments at a time; 0: no node is there.
  uint64_t device_bytes() const;
  // After bind: predicted compute time on one thread, in ns, by the kernels' own predictors.
  double predicted_ns(plan::ActionId action) const;
  double segment_predicted_ns(plan::SegmentId segment) const;
  double predicted_ns() const;  // of all actions

  // Gives the memory that bind asked for; `outputs` is parallel to output_bytes(). Holds the outputs' owners until
  // finish or let_go, the block's until detach.
  void attach(HeldBytes block, std::span<const HeldBytes> outputs);

  // Runs the segment's actions; allocates nothing unless it fails. The same bits for every runner. Errors: phase "run",
  // subject the node: an index out of range, contents that a kernel refuses.
  Status run_segment(plan::SegmentId segment, const ObjectTable& objects, TileRunner& runner);

  // After run_segment: what the segment lacks. It hasn't ended then: once it has that it is run again, and goes on. The
  // memory is held until finish or let_go.
  const MemoryWanted& wanted() const;
  void grow(HeldBytes block);                         // of `least` bytes at least, aligned at 64
  void give_output(int32_t output, HeldBytes bytes);  // the same
  // After bind: whether the segment may want any.
  bool may_grow(plan::SegmentId segment) const;
  // After run_segment: which of the segment's successors comes next (PreparedExecutionPlan::after).
  int32_t chosen() const;

  // For a segment on the device, instead of run_segment: what the device is to do, in order, with `block` as the
  // frame's device_bytes. Host bytes of the frame and of its inputs stay where they are until the batch has ended.
  void device_commands(plan::SegmentId segment, const ObjectTable& objects, device::Address block,
                       std::vector<device::Command>& commands);

  // After the last segment: writes context.outputs and advances the lengths of its caches. `context` is the one that
  // was bound. The outputs' owners are the context's afterwards.
  void finish(RuntimeContext& context);
  // Instead of finish: lets go of the outputs.
  void let_go();
  // Lets go of block and outputs.
  void detach();

 private:
  std::unique_ptr<FrameState> state_;
};

}  // namespace ompipe::exec
