#include "pipeline_rig.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace ompipe::schedule {
namespace {

enum Kind : uint8_t { start = Message::first_free, arrived };

void spin(int64_t turns) {
  for (int64_t i = 0; i < turns; ++i) asm volatile("");
}

uint64_t resident_bytes() {
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * uint64_t(sysconf(_SC_PAGESIZE));
}

// A miniature policy: gangs in the order of age, eviction of what nobody pins, critical gates before speculative ones.
class Rig : public Director {
 public:
  Rig(const PipelineShape& shape)
      : shape_(shape), objects_(size_t(shape.objects)), slots_(size_t(shape.slots)), loads_(size_t(shape.load_tokens)) {
    for (int i = 0; i < shape.objects; ++i) {
      objects_[size_t(i)].chunks = i % shape.max_chunks + 1;
      objects_[size_t(i)].packed = std::vector<std::atomic<int>>(size_t(shape.max_chunks));
    }
    for (int i = 0; i < shape.load_tokens; ++i) free_loads_.push_back(i);
    for (int i = 0; i < shape.publish_tokens; ++i) free_publishes_.push_back(i);
    random_.seed(shape.seed);
  }

  PipelineResult run(const std::string& name) {
    Result<std::unique_ptr<Scheduler>> opened = open_scheduler(name, {.threads = shape_.threads}, *this);
    OMPIPE_CHECK(opened.ok());
    scheduler_ = opened->get();
    scheduler_->post(Message{.kind = start});
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_; });
    lock.unlock();
    result_.counters = scheduler_->counters();
    opened->reset();
    result_.tiles = tiles_.load();
    result_.wrong += wrong_.load();
    result_.wrong +=
        free_loads_.size() != size_t(shape_.load_tokens) || free_publishes_.size() != size_t(shape_.publish_tokens);
    return result_;
  }

  void prepack(LoadToken token, Worker&) noexcept override {
    const Load& load = loads_[size_t(token)];
    Object& object = objects_[size_t(load.object)];
    wrong_ += !load.arrived.load(std::memory_order_acquire);
    spin(shape_.spin);
    wrong_ += object.packed[size_t(load.chunk)].exchange(1, std::memory_order_release) != 0;
  }
  void segment(SlotToken token, Worker& worker) noexcept override {
    Slot& slot = slots_[size_t(token)];
    const int index = slot.ran++;
    check_packed(index);
    std::vector<std::atomic<int>> seen(size_t(shape_.tiles));
    Tiles tiles{this, &seen};
    worker.run_tiles(
        shape_.tiles,
        [](void* arg, int64_t tile, int) {
          auto* const work = static_cast<Tiles*>(arg);
          spin(work->rig->shape_.spin / work->rig->shape_.tiles);
          ++(*work->seen)[size_t(tile)];
          ++work->rig->tiles_;
        },
        &tiles, double(shape_.spin));
    for (std::atomic<int>& count : seen) wrong_ += count.load() != 1;
    check_packed(index);
  }

  void on_message(const Message& message) override {
    if (message.kind == start) started_ = true;
    if (message.kind == arrived) ready_.push_back(message.id);
    if (message.kind == Message::prepacked) on_prepacked(message.id);
    if (message.kind == Message::segment_done) on_segment_done(message.id);
  }
  void pump() override {
    if (!started_) return;
    for (int s = 0; s < shape_.slots; ++s) {
      while (slots_[size_t(s)].created < shape_.segments &&
             slots_[size_t(s)].created - slots_[size_t(s)].done < kSegmentsAhead) {
        if (!create(s)) return open_gates();
      }
    }
    prefetch();
    open_gates();
  }
  bool read_one() override {
    if (reads_.empty()) return false;
    const LoadToken token = reads_.front();
    reads_.pop_front();
    arrive(token);
    return true;
  }
  void thread_started(ThreadRole, int) override {}

 private:
  struct Object {
    int chunks = 1;
    enum { absent, loading, resident } state = absent;
    int pins = 0, named = 0, submitted = 0, reported = 0;
    PublishToken token = -1;
    std::vector<std::atomic<int>> packed;
  };
  struct Slot {
    int created = 0, done = 0, ran = 0;
    std::deque<std::vector<int>> named;
  };
  struct Load {
    int object = -1, chunk = -1;
    bool opened_critical = false;
    std::atomic<bool> arrived{false};
  };
  struct Tiles {
    Rig* rig;
    std::vector<std::atomic<int>>* seen;
  };

  std::vector<int> needs(int segment) const {
    std::vector<int> ids;
    for (int k = 0; k < shape_.per_segment; ++k) ids.push_back((segment * shape_.per_segment + k) % shape_.objects);
    return ids;
  }
  void check_packed(int segment) {
    for (int id : needs(segment)) {
      for (int c = 0; c < objects_[size_t(id)].chunks; ++c)
        wrong_ += objects_[size_t(id)].packed[size_t(c)].load(std::memory_order_acquire) != 1;
    }
  }
  void arrive(LoadToken token) {
    loads_[size_t(token)].arrived.store(true, std::memory_order_release);
    scheduler_->post(Message{.kind = arrived, .id = token});
  }
  bool make_room(int units) {
    while (shape_.resident_limit - held_ < units) {
      std::vector<int> victims;
      for (int i = 0; i < shape_.objects; ++i) {
        if (objects_[size_t(i)].state == Object::resident && objects_[size_t(i)].pins == 0) victims.push_back(i);
      }
      if (victims.empty()) return false;
      Object& victim = objects_[size_t(victims[random_() % victims.size()])];
      victim.state = Object::absent;
      for (std::atomic<int>& packed : victim.packed) packed = 0;
      --held_;
      ++result_.evictions;
    }
    return true;
  }
  bool create(int s) {
    Slot& slot = slots_[size_t(s)];
    const std::vector<int> ids = needs(slot.created);
    int missing = 0;
    for (int id : ids) missing += objects_[size_t(id)].state == Object::absent, ++objects_[size_t(id)].pins;
    if (size_t(missing) > std::min(free_loads_.size(), free_publishes_.size()) || !make_room(missing)) {
      for (int id : ids) --objects_[size_t(id)].pins;
      return false;
    }
    std::vector<PublishToken> tokens;
    std::vector<int> named;
    for (int id : ids) {
      Object& object = objects_[size_t(id)];
      if (object.state == Object::absent) admit(id);
      if (object.state == Object::resident) continue;
      ++object.named;
      named.push_back(id);
      tokens.push_back(object.token);
      for (LoadToken t = 0; t < shape_.load_tokens; ++t) {
        if (loads_[size_t(t)].object == id && !loads_[size_t(t)].opened_critical) scheduler_->promote_load(t);
      }
    }
    scheduler_->create_segment(s, tokens);
    slot.named.push_back(named);
    ++slot.created;
    return true;
  }
  void admit(int id) {
    Object& object = objects_[size_t(id)];
    object.state = Object::loading;
    object.submitted = object.reported = 0;
    object.token = free_publishes_.back();
    free_publishes_.pop_back();
    ++held_;
    scheduler_->create_publish(object.token);
    const LoadToken token = free_loads_.back();
    free_loads_.pop_back();
    submit(id, token);
  }
  void submit(int id, LoadToken token) {
    Load& load = loads_[size_t(token)];
    load.object = id;
    load.chunk = objects_[size_t(id)].submitted++;
    load.opened_critical = false;
    load.arrived = false;
    scheduler_->create_load(token);
    if (scheduler_->capabilities().inline_reads) {
      reads_.push_back(token);
    } else {
      arrive(token);
    }
  }
  void prefetch() {
    const int id = int(random_() % size_t(shape_.objects));
    if (objects_[size_t(id)].state == Object::absent && held_ < shape_.resident_limit && free_loads_.size() > 2 &&
        free_publishes_.size() > 2 && slots_[0].created < shape_.segments) {
      admit(id);
    }
  }
  void open_gates() {
    auto critical = [&](LoadToken token) { return objects_[size_t(loads_[size_t(token)].object)].pins > 0; };
    while (open_ <= shape_.threads && !ready_.empty()) {
      auto best = std::max_element(ready_.begin(), ready_.end(),
                                   [&](LoadToken a, LoadToken b) { return critical(a) < critical(b); });
      const LoadToken token = *best;
      if (!critical(token) && scheduler_->critical_waiting()) break;
      ready_.erase(best);
      ++open_;
      loads_[size_t(token)].opened_critical = critical(token);
      scheduler_->open_load(token, critical(token) ? TaskClass::critical : TaskClass::speculative);
    }
  }
  void on_prepacked(LoadToken token) {
    const int id = loads_[size_t(token)].object;
    Object& object = objects_[size_t(id)];
    --open_;
    ++result_.prepacks;
    loads_[size_t(token)].object = -1;
    if (object.submitted < object.chunks) {
      submit(id, token);
    } else {
      free_loads_.push_back(token);
    }
    if (++object.reported < object.chunks) return;
    object.state = Object::resident;
    scheduler_->publish(object.token);
    release_token(object);
    finish_if_done();
  }
  void release_token(Object& object) {
    if (object.state != Object::resident || object.named > 0 || object.token < 0) return;
    free_publishes_.push_back(object.token);
    object.token = -1;
  }
  void on_segment_done(SlotToken token) {
    Slot& slot = slots_[size_t(token)];
    for (int id : slot.named.front()) {
      --objects_[size_t(id)].named;
      release_token(objects_[size_t(id)]);
    }
    slot.named.pop_front();
    for (int id : needs(slot.done)) --objects_[size_t(id)].pins;
    ++slot.done;
    ++result_.segments;
    if (result_.segments == uint64_t(shape_.slots * shape_.segments / 5)) result_.warm_bytes = resident_bytes();
    finish_if_done();
  }
  void finish_if_done() {
    for (const Slot& slot : slots_) {
      if (slot.done < shape_.segments) return;
    }
    for (const Object& object : objects_) {
      if (object.state == Object::loading) return;
    }
    result_.end_bytes = resident_bytes();
    std::lock_guard lock(mutex_);
    done_ = true;
    finished_.notify_one();
  }

  const PipelineShape shape_;
  Scheduler* scheduler_ = nullptr;
  std::vector<Object> objects_;
  std::vector<Slot> slots_;
  std::vector<Load> loads_;
  std::vector<LoadToken> free_loads_, ready_;
  std::vector<PublishToken> free_publishes_;
  std::deque<LoadToken> reads_;
  std::mt19937_64 random_;
  int held_ = 0, open_ = 0;
  bool started_ = false, done_ = false;
  PipelineResult result_;
  std::atomic<uint64_t> tiles_{0}, wrong_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
};

}  // namespace

PipelineResult run_pipeline(const std::string& scheduler, const PipelineShape& shape) {
  return Rig(shape).run(scheduler);
}

}  // namespace ompipe::schedule
