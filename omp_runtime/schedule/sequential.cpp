#include "sequential.h"

#include <array>
#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "float_mode.h"
#include "ompipe/arenas/start_thread.h"
#include "ompipe/schedule/hot_ledger.h"
#include "queue.h"
#include "segment_chain.h"

namespace ompipe::schedule {
namespace {

struct SerialWorker : Worker {
  int index() const override { return 0; }
  void run_tiles(int64_t tiles, TileFunction fn, void* arg, double) override {
    for (int64_t tile = 0; tile < tiles; ++tile) fn(arg, tile, 0);
  }
  uint64_t helpers_cpu_ns() const override { return 0; }
  void expect(double) override {}
};

class Sequential : public Scheduler {
 public:
  Sequential(const SchedulerOptions& options, Director& director)
      : director_(director), seeded_(options.seed.has_value()) {
    if (seeded_) random_.seed(*options.seed);
  }
  ~Sequential() override {
    if (!thread_.joinable()) return;
    post(Message{.kind = Message::stop});
    thread_.join();
  }

  Status start() {
    Result<std::thread> started = start_thread("runtime thread", [this] { run(); });
    if (!started.ok()) return started.error();
    thread_ = *std::move(started);
    return ok_status();
  }

  Capabilities capabilities() const override { return {"sequential", false, true, false, kMaxTasks}; }
  int threads() const override { return 1; }
  Counters counters() const override {
    return {.tasks_created = tasks_.load(), .segments = segments_.load(), .gates_opened = gates_.load()};
  }
  const char* scheduling_slice() const override { return "none"; }
  void post(const Message& message) override { queue_.post(message); }

  void create_load(LoadToken) override { tasks_ += 2; }
  void open_load(LoadToken load, TaskClass) override {
    ready_.push_back({true, load});
    ++gates_;
  }
  void promote_load(LoadToken) override {}
  void create_publish(PublishToken) override { ++tasks_; }
  void publish(PublishToken token) override {
    ++gates_;
    chains_.published(token, [&](SlotToken slot) { ready_.push_back({false, slot}); });
  }
  void create_segment(SlotToken slot, std::span<const PublishToken> named) override {
    ++tasks_;
    ++segments_;
    words_[size_t(slot)].created();
    if (chains_.create(slot, named)) ready_.push_back({false, slot});
  }
  int take_back(SlotToken slot) override { return words_[size_t(slot)].take_back(chains_.live(slot)); }
  // Whatever is opened runs before the next message is asked for, so nothing critical ever waits beside a decision.
  bool critical_waiting() override { return false; }
  void publish_hot() override {
    hot_.published();
    tell_hot();
  }
  void taken_hot() override { hot_.taken(); }
  bool run_on_caller(CallerBody body, void* arg) override {
    const int place = hot_.take_place();
    if (place < 0) return false;
    {
      const DefaultFloatMode mode;
      SerialWorker worker;
      body(arg, worker);
    }
    hot_.free_place(place);
    tell_hot();
    return true;
  }
  void limit_hot(bool cold_lives) override { cold_lives_ = cold_lives; }

 private:
  struct Ready {
    bool load;
    int32_t token;
  };

  void run() {
    director_.thread_started(ThreadRole::compute, 0);
    std::vector<Message> batch;
    while (!stopped_ || !ready_.empty()) {
      if (queue_.try_take(batch)) {
        serve(batch);
      } else if (!cold_is_next_ && run_hot()) {
        cold_is_next_ = cold_lives_;
      } else if (run_cold()) {
        cold_is_next_ = false;
      } else if (!run_hot()) {
        queue_.take(batch);
        serve(batch);
      }
    }
  }
  // One read, prepack or segment; false: there was none.
  bool run_cold() {
    if (reads_first() && director_.read_one()) return true;
    if (ready_.empty()) return director_.read_one();
    run_one();
    return true;
  }
  // A seed interleaves reads with what is ready; without one a read happens only when nothing is.
  bool reads_first() { return seeded_ && random_() % 2 == 0; }

  void serve(const std::vector<Message>& batch) {
    for (const Message& message : batch) {
      if (message.kind == Message::stop) {
        stopped_ = true;
      } else if (message.kind != Message::hot) {
        director_.on_message(message);
      }
    }
    director_.pump();
  }

  // The runtime thread looks for something to claim after every message; this is one.
  void tell_hot() {
    if (hot_.may_claim()) post(Message{.kind = Message::hot});
  }
  bool run_hot() {
    if (!hot_.may_claim()) return false;
    const int place = hot_.take_team_place();
    if (place < 0) return false;
    const int ticket = director_.run_claimable(worker_);
    hot_.free_team_place(place);
    if (ticket >= 0) director_.ran_claimable(ticket);
    return ticket >= 0;
  }

  void run_one() {
    const size_t chosen = seeded_ ? random_() % ready_.size() : 0;
    const Ready task = ready_[chosen];
    ready_.erase(ready_.begin() + ptrdiff_t(chosen));
    if (task.load) {
      director_.prepack(task.token, worker_);
      director_.on_message(Message{.kind = Message::prepacked, .id = task.token});
    } else {
      SegmentWords& words = words_[size_t(task.token)];
      if (words.begin()) director_.segment(task.token, worker_);
      words.end();
      chains_.segment_done(task.token, [&](SlotToken slot) { ready_.push_back({false, slot}); });
      director_.on_message(Message{.kind = Message::segment_done, .id = task.token});
    }
    director_.pump();
  }

  Director& director_;
  MessageQueue queue_;
  SegmentChains chains_;
  HotLedger hot_{1};
  std::array<SegmentWords, kMaxSlots> words_;
  std::deque<Ready> ready_;
  SerialWorker worker_;
  bool stopped_ = false;
  bool cold_lives_ = false;    // as the director says
  bool cold_is_next_ = false;  // it does, and a hot run was the last that ran
  const bool seeded_;
  std::mt19937_64 random_;
  std::atomic<uint64_t> tasks_{0}, segments_{0}, gates_{0};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace

Result<std::unique_ptr<Scheduler>> open_sequential(const SchedulerOptions& options, Director& director) {
  auto scheduler = std::make_unique<Sequential>(options, director);
  if (Status status = scheduler->start(); !status.ok()) return status.error();
  return Result<std::unique_ptr<Scheduler>>(std::move(scheduler));
}

}  // namespace ompipe::schedule
