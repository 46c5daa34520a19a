// An invocation's work over an exec::Frame: its memory, its segments, its outputs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ompipe/exec/frame.h"
#include "policy_state.h"

namespace ompipe::session {

// The frame goes back through `give_back` when the invocation has ended. `owner` is kept by every output that the
// caller holds.
class FrameWork : public InvocationWork {
 public:
  using GiveBack = std::function<void(std::unique_ptr<exec::Frame>)>;

  FrameWork(std::unique_ptr<exec::Frame> frame, exec::RuntimeContext& context, std::shared_ptr<void> owner,
            GiveBack give_back);

  uint64_t execution_bytes() const override { return frame_->execution_bytes(); }
  std::span<const uint64_t> output_bytes() const override { return frame_->output_bytes(); }
  void attach(arenas::Allocation block, std::vector<arenas::Allocation> outputs) override;
  void finish(bool succeeded) override;

  // On a compute thread; the segment's requirements are resident and pinned.
  Status run_segment(plan::SegmentId segment, const store::PreparedStore& store, std::span<const RowFetch> rows,
                     schedule::Worker& worker, int workers);

 private:
  std::unique_ptr<exec::Frame> frame_;
  exec::RuntimeContext& context_;
  std::shared_ptr<void> owner_;
  GiveBack give_back_;
};

}  // namespace ompipe::session
