#include "frame_work.h"

#include "home_process.h"

namespace ompipe::session {
namespace {

// What keeps an output's bytes: the allocation, and the runtime whose arena they go back to. A forked child leaves both
// alone.
struct OutputOwner {
  OutputOwner(std::shared_ptr<void> the_runtime, arenas::Allocation the_allocation)
      : runtime(std::move(the_runtime)), allocation(std::move(the_allocation)) {}
  ~OutputOwner() {
    if (!home.left()) return;
    leave_alone(allocation);
    leave_alone(runtime);
  }

  const HomeProcess home;
  std::shared_ptr<void> runtime;
  arenas::Allocation allocation;
};

exec::HeldBytes hold(arenas::Allocation allocation, const std::shared_ptr<void>& runtime) {
  auto owner = std::make_shared<OutputOwner>(runtime, std::move(allocation));
  return {owner->allocation.data(), owner->allocation.bytes(), owner};
}

// The bytes of a segment's objects: resident ones, and tables of which the rows it looks at lie in windows.
class SegmentObjects : public exec::ObjectTable {
 public:
  SegmentObjects(const store::PreparedStore& store, std::span<const RowFetch> rows, plan::SegmentId segment)
      : store_(store), rows_(rows), segment_(segment) {}
  const std::byte* bytes(plan::ObjectId object) const override { return store_.bytes(object); }
  const std::byte* rows(plan::ObjectId object, size_t source) const override {
    for (const RowFetch& fetch : rows_) {
      if (fetch.object == object && fetch.segment == segment_ && !fetch.windows.empty())
        return fetch.windows[source].data();
    }
    return nullptr;
  }

 private:
  const store::PreparedStore& store_;
  const std::span<const RowFetch> rows_;
  const plan::SegmentId segment_;
};

// Hands a kernel's tiles to the scheduler.
class SharedTiles : public exec::TileRunner {
 public:
  SharedTiles(schedule::Worker& worker, int workers) : worker_(worker), workers_(workers) {}
  int worker() const override { return worker_.index(); }
  int workers() const override { return workers_; }
  void run(int tiles, exec::TileFn fn, void* arg, double predicted_ns) override {
    Call call{fn, arg};
    worker_.run_tiles(
        tiles,
        [](void* bound, int64_t tile, int worker) {
          const Call& inner = *static_cast<const Call*>(bound);
          inner.fn(inner.arg, int(tile), worker);
        },
        &call, predicted_ns);
  }

 private:
  struct Call {
    exec::TileFn fn;
    void* arg;
  };
  schedule::Worker& worker_;
  const int workers_;
};

}  // namespace

FrameWork::FrameWork(std::unique_ptr<exec::Frame> frame, exec::RuntimeContext& context, std::shared_ptr<void> owner,
                     GiveBack give_back)
    : frame_(std::move(frame)), context_(context), owner_(std::move(owner)), give_back_(std::move(give_back)) {}

void FrameWork::attach(arenas::Allocation block, std::vector<arenas::Allocation> outputs) {
  std::vector<exec::HeldBytes> held;
  for (arenas::Allocation& output : outputs)
    held.push_back(output ? hold(std::move(output), owner_) : exec::HeldBytes{});
  frame_->attach(hold(std::move(block), owner_), held);
}

void FrameWork::finish(bool succeeded) {
  if (succeeded) frame_->finish(context_);
  frame_->detach();
  give_back_(std::move(frame_));
}

Status FrameWork::run_segment(plan::SegmentId segment, const store::PreparedStore& store,
                              std::span<const RowFetch> rows, schedule::Worker& worker, int workers) {
  SharedTiles tiles(worker, workers);
  return frame_->run_segment(segment, SegmentObjects(store, rows, segment), tiles);
}

}  // namespace ompipe::session
