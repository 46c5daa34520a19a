// An invocation's work over an exec::Frame: its memory, its segments, its outputs.
#pragma once

#include <memory>
#include <vector>

#include "ompipe/exec/frame.h"
#include "output_memory.h"
#include "policy_state.h"
#include "row_fetches.h"

namespace ompipe::session {

// Where frames come from; outlives them.
class FrameHome {
 public:
  virtual ~FrameHome() = default;
  virtual void take_back(std::unique_ptr<exec::Frame> frame) = 0;
  virtual std::shared_ptr<void> runtime() const = 0;  // kept by every output that a caller holds
  virtual std::span<const RowTable> tables() const = 0;
};

// One thread at a time.
class FrameWork : public InvocationWork {
 public:
  FrameWork(std::unique_ptr<exec::Frame> frame, FrameHome& home) : frame_(std::move(frame)), home_(home) {}
  ~FrameWork() override;

  // Before anything else, and again after finish. `context` must live until finish. Errors: those of exec::Frame::bind.
  Status bind(exec::RuntimeContext& context);

  uint64_t execution_bytes() const override { return frame_->execution_bytes(); }
  std::span<const uint64_t> output_bytes() const override { return frame_->output_bytes(); }
  void attach(arenas::Allocation block, std::vector<arenas::Allocation> outputs) override;
  bool may_grow(plan::SegmentId segment) const override { return frame_->may_grow(segment); }
  exec::MemoryWanted wanted() const override { return frame_->wanted(); }
  void grow(const exec::MemoryWanted& wanted, arenas::Allocation memory) override;
  void finish(bool succeeded) override;

  // Whether the memory that it has holds what the last bind asked for and no caller holds a result there; it is
  // attached then, as by attach. Allocates nothing.
  bool reuse();
  // Gives its memory back; what is bound stays bound.
  void release_memory();
  int32_t chosen() const { return frame_->chosen(); }  // by the last segment
  double predicted_ns() const { return frame_->predicted_ns(); }
  // Of the tables that what is bound could have read by rows.
  std::vector<RowFetch> rows() const { return row_fetches(home_.tables(), *context_); }

  // On a compute thread; the segment's requirements are resident and pinned.
  Status run_segment(plan::SegmentId segment, const store::PreparedStore& store, std::span<const RowFetch> rows,
                     schedule::Worker& worker, int workers);

 private:
  void attach_frame();

  std::unique_ptr<exec::Frame> frame_;
  FrameHome& home_;
  exec::RuntimeContext* context_ = nullptr;
  arenas::Allocation block_;
  std::vector<arenas::Allocation> grown_;  // beside it, until finish
  std::vector<OutputMemory*> outputs_;     // by graph output; null: none is needed
  std::vector<exec::HeldBytes> lent_;      // scratch of attach_frame
};

}  // namespace ompipe::session
