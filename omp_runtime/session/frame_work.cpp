#include "frame_work.h"

#include "home_process.h"

namespace ompipe::session {
namespace {

// The bytes of a segment's objects: resident ones, and tables of which the rows it looks at lie in windows.
class SegmentObjects : public exec::ObjectTable {
 public:
  SegmentObjects(const store::PreparedStore& store, std::span<const RowFetch> rows, plan::SegmentId segment)
      : store_(store), rows_(rows), segment_(segment) {}
  const std::byte* bytes(plan::ObjectId object) const override { return store_.bytes(object); }
  bool narrow(plan::ObjectId object) const override { return store_.narrow(object); }
  const std::byte* rows(plan::ObjectId object, size_t source) const override {
    for (const RowFetch& fetch : rows_) {
      if (fetch.object == object && fetch.segment == segment_ && !fetch.windows.empty())
        return fetch.windows[source].data();
    }
    return nullptr;
  }
  device::Address on_device(plan::ObjectId object) const override { return store_.on_device(object).at(); }

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

FrameWork::~FrameWork() {
  release_memory();
  home_.take_back(std::move(frame_));
}

void FrameWork::release_memory() {
  frame_->detach();
  for (OutputMemory*& output : outputs_) {
    if (output) std::exchange(output, nullptr)->drop();
  }
  block_.reset();
  grown_.clear();
  there_.reset();
}

bool FrameWork::reuse() {
  const std::span<const uint64_t> needed = frame_->output_bytes();
  if (!block_ || block_.bytes() < frame_->execution_bytes()) return false;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] == 0) continue;
    if (!outputs_[i] || outputs_[i]->bytes() < needed[i] || !outputs_[i]->free()) return false;
  }
  attach_frame();
  return true;
}

Status FrameWork::bind(exec::RuntimeContext& context) {
  context_ = &context;
  return frame_->bind(context);
}

void FrameWork::attach(arenas::Allocation block, std::vector<arenas::Allocation> outputs) {
  block_ = std::move(block);
  outputs_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (OutputMemory* const before = std::exchange(outputs_[i], nullptr)) before->drop();
    if (outputs[i]) outputs_[i] = std::make_unique<OutputMemory>(std::move(outputs[i])).release();
  }
  attach_frame();
}

void FrameWork::attach_frame() {
  const std::span<const uint64_t> needed = frame_->output_bytes();
  lent_.resize(needed.size());
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] == 0) {
      lent_[i] = {};
    } else {
      lent_[i] = {outputs_[i]->data(), outputs_[i]->bytes(), outputs_[i]->lend(home_.runtime())};
    }
  }
  frame_->attach({block_.data(), block_.bytes(), nullptr}, lent_);
  for (exec::HeldBytes& lent : lent_) lent.owner = nullptr;
}

void FrameWork::finish(bool succeeded) {
  if (succeeded) {
    frame_->finish(*context_);
  } else {
    frame_->let_go();
  }
  grown_.clear();
}

void FrameWork::grow(const exec::MemoryWanted& wanted, arenas::Allocation memory) {
  if (wanted.output < 0) {
    grown_.push_back(std::move(memory));
    frame_->grow({grown_.back().data(), grown_.back().bytes(), nullptr});
    return;
  }
  OutputMemory*& place = outputs_[size_t(wanted.output)];
  if (OutputMemory* const before = std::exchange(place, nullptr)) before->drop();
  place = std::make_unique<OutputMemory>(std::move(memory)).release();
  frame_->give_output(wanted.output, {place->data(), place->bytes(), place->lend(home_.runtime())});
}

void FrameWork::device_commands(plan::SegmentId segment, const store::PreparedStore& store,
                                std::vector<device::Command>& commands) {
  frame_->device_commands(segment, SegmentObjects(store, {}, segment), there_.at(), commands);
}

Status FrameWork::run_segment(plan::SegmentId segment, const store::PreparedStore& store,
                              std::span<const RowFetch> rows, schedule::Worker& worker, int workers) {
  SharedTiles tiles(worker, workers);
  return frame_->run_segment(segment, SegmentObjects(store, rows, segment), tiles);
}

}  // namespace ompipe::session
