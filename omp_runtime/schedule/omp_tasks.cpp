#include "omp_tasks.h"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "hot_team.h"
#include "ompipe/schedule/environment.h"
#include "ompipe/schedule/ledger.h"
#include "ompipe/schedule/root_threads.h"
#include "ompipe/schedule/slice.h"
#include "ompipe/schedule/tiles.h"
#include "queue.h"
#include "segment_chain.h"

namespace ompipe::schedule {
namespace {

// libgomp's taskyield does nothing: there idle threads wait in the region's barrier, where they run tasks, and tiles
// are not shared.
constexpr bool kOwnParking = kLibomp;

// How long the probe task may take to start. Nothing but a refusal depends on it.
constexpr std::chrono::seconds kProbeLimit{20};

// The id of a Message::hot that says so; others say that there is something to claim.
constexpr int32_t kHotTaskEnded = 0;

constexpr const char* kSliced = "sched_setattr";

// Puts the calling thread's CPU mask back: libomp lends the same threads to other regions, also to those of the host.
class KeptMask {
 public:
  KeptMask() : known_(sched_getaffinity(0, sizeof mask_, &mask_) == 0) {}
  ~KeptMask() {
    if (known_) sched_setaffinity(0, sizeof mask_, &mask_);
  }
  KeptMask(const KeptMask&) = delete;
  KeptMask& operator=(const KeptMask&) = delete;
  const cpu_set_t& mask() const { return mask_; }

 private:
  cpu_set_t mask_;
  const bool known_;
};

class OmpTasks;

// What a task carries: one pointer. Everything else lives here, published by atomics and by the order of the gates.
struct LoadTask {
  OmpTasks* owner = nullptr;
  LoadToken token = -1;
  std::atomic<uint8_t> word{kWordClosed};
  omp_event_handle_t gate{};
};
struct PublishTask {
  OmpTasks* owner = nullptr;
  omp_event_handle_t gate{};
};
struct SlotTask {
  OmpTasks* owner = nullptr;
  SlotToken token = -1;
  SegmentWords words;
};

// A thread that searches has not found a body yet; its count is given back when a body starts or taskyield returns.
thread_local bool searching = false;

class OmpTasks : public Scheduler {
 public:
  OmpTasks(const SchedulerOptions& options, Director& director)
      : director_(director),
        threads_(options.threads),
        io_threads_(options.io_threads),
        ledger_(options.threads),
        tiles_(ledger_, kOwnParking ? options.threads : 1),
        hot_(ledger_, tiles_, director, options.threads),
        bound_(size_t(options.threads)) {
    for (int i = 0; i < kMaxLoadTokens; ++i) loads_[size_t(i)].owner = this, loads_[size_t(i)].token = i;
    for (PublishTask& task : publishes_) task.owner = this;
    for (int i = 0; i < kMaxSlots; ++i) slots_[size_t(i)].owner = this, slots_[size_t(i)].token = i;
  }
  ~OmpTasks() override {
    if (!opened_) return;
    post(Message{.kind = Message::stop});
    closed_.wait();
  }

  Status open() {
    std::promise<Status> opened;
    Result<std::future<void>> job = run_on_root_thread(threads_ + 1, [&] { region(opened); });
    if (!job.ok()) return job.error();
    closed_ = *std::move(job);
    Status status = opened.get_future().get();
    opened_ = status.ok();
    if (!opened_) closed_.wait();
    return status;
  }

  Capabilities capabilities() const override { return {"omp-tasks", true, false, kOwnParking, max_tasks(threads_)}; }
  int threads() const override { return threads_; }
  Counters counters() const override {
    return {tasks_.load(), segments_.load(),           promotions_.load(),
            gates_.load(), ran_on_coordinator_.load(), tiles_.helped()};
  }
  const char* scheduling_slice() const override { return slice_.load(); }
  void post(const Message& message) override { queue_.post(message); }

  void create_load(LoadToken load) override;
  void open_load(LoadToken load, TaskClass task_class) override;
  void promote_load(LoadToken load) override;
  void create_publish(PublishToken token) override;
  void publish(PublishToken token) override;
  void create_segment(SlotToken slot, std::span<const PublishToken> named) override;
  int take_back(SlotToken slot) override { return slots_[size_t(slot)].words.take_back(chains_.live(slot)); }
  bool critical_waiting() override { return ledger_.withhold(); }
  void publish_hot() override;
  void taken_hot() override { ledger_.hot.taken(); }
  bool run_on_caller(CallerBody body, void* arg) override;
  void limit_hot(bool cold_lives) override;

  void run_hot();
  void run_prepack(LoadTask& task);
  void run_segment(SlotTask& task);
  void run_gate();
  void run_probe();

 private:
  class TeamWorker : public Worker {
   public:
    TeamWorker(OmpTasks& owner, int index) : owner_(owner), index_(index) {}
    int index() const override { return index_; }
    void run_tiles(int64_t tiles, TileFunction fn, void* arg, double predicted_ns) override {
      helpers_cpu_ns_ += owner_.tiles_.lead(index_, tiles, fn, arg, predicted_ns);
    }
    uint64_t helpers_cpu_ns() const override { return helpers_cpu_ns_; }
    void expect(double) override {}

   private:
    OmpTasks& owner_;
    const int index_;
    uint64_t helpers_cpu_ns_ = 0;
  };

  void created(int tasks) {
    tasks_ += uint64_t(tasks);
    outstanding_ += tasks;
    OMPIPE_CHECK(outstanding_ <= max_tasks(threads_), "more tasks than the team can hold");
  }
  void region(std::promise<Status>& opened);
  Status probe(int team);
  void coordinate();
  void compute(int index);
  bool help(int index);
  void body_started(TaskClass task_class);
  void tell_withheld();
  void serve(const Message& message);
  void tell_hot();

  Director& director_;
  const int threads_, io_threads_;
  bool opened_ = false;
  MessageQueue queue_;
  Ledger ledger_;
  TileSharing tiles_;
  HotTeam hot_;
  std::vector<cpu_set_t> bound_;  // by compute thread
  bool hot_task_ = false;         // without parking of our own: the task that runs hot invocations is outstanding
  SegmentChains chains_;
  int outstanding_ = 0;  // tasks created whose end has not been reported; publish gates end when they are fulfilled
  std::atomic<bool> stopped_{false};
  std::promise<int> probe_thread_;
  std::atomic<const char*> slice_{"none"};
  std::atomic<uint64_t> tasks_{0}, segments_{0}, promotions_{0}, gates_{0}, ran_on_coordinator_{0};
  std::future<void> closed_;
  std::array<LoadTask, kMaxLoadTokens> loads_;
  std::array<PublishTask, kMaxPublishTokens> publishes_;
  std::array<SlotTask, kMaxSlots> slots_;

 public:
  // The depend addresses. Small pools of them: libomp keeps 855 bytes for every address that a region has ever named.
  std::array<char, kMaxLoadTokens> loaded;
  std::array<char, kMaxPublishTokens> published;
  std::array<char, kMaxSlots> chained;
};

// Task creation stands in functions of its own, without ThreadSanitizer: libomp recycles the memory of tasks, which it
// can't follow.
#define OMPIPE_CREATES_TASKS __attribute__((noinline, no_sanitize("thread")))

// States intent: a runtime honours it only with OMP_MAX_TASK_PRIORITY set, which costs libomp more than it gives. Gates
// decide the order.
constexpr int kPrepackPriority = 1, kCriticalPriority = 2;

OMPIPE_CREATES_TASKS omp_event_handle_t create_gate(OmpTasks* owner, [[maybe_unused]] char* address) {
  omp_event_handle_t gate{};
#pragma omp task untied detach(gate) depend(out : *address) firstprivate(owner) priority(kCriticalPriority)
  owner->run_gate();
  return gate;
}

OMPIPE_CREATES_TASKS void create_prepack(LoadTask* task, [[maybe_unused]] char* address) {
#pragma omp task untied depend(in : *address) firstprivate(task) priority(kPrepackPriority)
  task->owner->run_prepack(*task);
}

OMPIPE_CREATES_TASKS void create_segment_task(SlotTask* task, [[maybe_unused]] char* published,
                                              [[maybe_unused]] const PublishToken* named, [[maybe_unused]] int count,
                                              [[maybe_unused]] char* chained) {
#pragma omp task untied depend(iterator(int i = 0 : count), in : published[named[i]]) depend(inout : *chained) \
    firstprivate(task) priority(kCriticalPriority)
  task->owner->run_segment(*task);
}

OMPIPE_CREATES_TASKS void create_hot_task(OmpTasks* owner) {
#pragma omp task untied firstprivate(owner)
  owner->run_hot();
}

OMPIPE_CREATES_TASKS void create_probe(OmpTasks* owner) {
#pragma omp task untied firstprivate(owner)
  owner->run_probe();
}

void OmpTasks::create_load(LoadToken load) {
  LoadTask& task = loads_[size_t(load)];
  task.word.store(kWordClosed);
  task.gate = create_gate(this, &loaded[size_t(load)]);
  create_prepack(&task, &loaded[size_t(load)]);
  created(2);
}

void OmpTasks::open_load(LoadToken load, TaskClass task_class) {
  LoadTask& task = loads_[size_t(load)];
  task.word.store(uint8_t(task_class));
  omp_fulfill_event(task.gate);
  ledger_.add(task_class);
  ++gates_;
}

void OmpTasks::promote_load(LoadToken load) {
  if (ledger_.promote(loads_[size_t(load)].word)) {
    ++promotions_;
  } else {
    tell_withheld();
  }
}

void OmpTasks::create_publish(PublishToken token) {
  publishes_[size_t(token)].gate = create_gate(this, &published[size_t(token)]);
  created(1);
}

void OmpTasks::publish(PublishToken token) {
  omp_fulfill_event(publishes_[size_t(token)].gate);
  ++gates_;
  --outstanding_;
  chains_.published(token, [&](SlotToken) { ledger_.add(TaskClass::critical); });
}

void OmpTasks::create_segment(SlotToken slot, std::span<const PublishToken> named) {
  const bool ready = chains_.create(slot, named);
  slots_[size_t(slot)].words.created();
  create_segment_task(&slots_[size_t(slot)], published.data(), named.data(), int(named.size()), &chained[size_t(slot)]);
  ++segments_;
  created(1);
  if (ready) ledger_.add(TaskClass::critical);
}

// Bodies take themselves off the ledger first, and touch nothing after they have reported.
void OmpTasks::body_started(TaskClass task_class) {
  if (searching) searching = false, ledger_.end_search();
  ledger_.started(task_class);
  if (omp_get_thread_num() == 0) ++ran_on_coordinator_;
  tell_withheld();
}

void OmpTasks::tell_withheld() {
  if (ledger_.take_withheld()) post(Message{.kind = Message::room_for_speculation});
}

void OmpTasks::run_prepack(LoadTask& task) {
  const uint8_t found = task.word.exchange(kWordStarted);
  OMPIPE_CHECK(found <= uint8_t(TaskClass::critical), "a prepack ran before its gate had been opened");
  body_started(TaskClass(found));
  TeamWorker worker(*this, std::max(0, omp_get_thread_num() - 1));
  const LoadToken token = task.token;
  director_.prepack(token, worker);
  post(Message{.kind = Message::prepacked, .id = token});
}

void OmpTasks::run_segment(SlotTask& task) {
  body_started(TaskClass::critical);
  TeamWorker worker(*this, std::max(0, omp_get_thread_num() - 1));
  const SlotToken token = task.token;
  if (task.words.begin()) director_.segment(token, worker);
  task.words.end();
  post(Message{.kind = Message::segment_done, .id = token});
}

void OmpTasks::publish_hot() {
  ledger_.publish_hot();
  tell_hot();
}

bool OmpTasks::run_on_caller(CallerBody body, void* arg) {
  const bool ran = hot_.run_on_caller(body, arg);
  tell_hot();
  return ran;
}

void OmpTasks::limit_hot(bool cold_lives) {
  ledger_.hot.limit_team(cold_lives);
  ledger_.pass_hot_on();
  tell_hot();
}

// Threads that wait in libgomp's barrier look for tasks only: one is created for hot invocations, by the coordinator.
void OmpTasks::tell_hot() {
  if (!kOwnParking && ledger_.hot.may_claim()) post(Message{.kind = Message::hot});
}

void OmpTasks::run_hot() {
  while (hot_.run_claimable(std::max(0, omp_get_thread_num() - 1))) {
  }
  post(Message{.kind = Message::hot, .id = kHotTaskEnded});
}

// Not on the ledger and waking nobody: a gate's body is run on the way to its successor.
void OmpTasks::run_gate() {
  if (omp_get_thread_num() == 0) ++ran_on_coordinator_;
}

void OmpTasks::run_probe() {
  if (searching) searching = false, ledger_.end_search();
  ledger_.started(TaskClass::critical);
  probe_thread_.set_value(omp_get_thread_num());
}

// One task before any other shows who runs bodies.
Status OmpTasks::probe(int team) {
  if (team != threads_ + 1) {
    return Error{
        ErrorKind::environment, "environment", "OpenMP team",
        fmt::format(
            "the team has {} threads; needed: {} (OMP_THREAD_LIMIT, KMP_DEVICE_THREAD_LIMIT and the host's own threads "
            "bound it)",
            team, threads_ + 1)};
  }
  create_probe(this);
  ledger_.add(TaskClass::critical);
  std::future<int> thread = probe_thread_.get_future();
  if (thread.wait_for(kProbeLimit) != std::future_status::ready) {
    return Error{ErrorKind::environment, "environment", "OpenMP team",
                 fmt::format("no thread of the team has run a task within {} s", kProbeLimit.count())};
  }
  if (thread.get() == 0) {
    return Error{ErrorKind::environment, "environment", "OpenMP team",
                 "task bodies run on the thread that creates them (KMP_LIBRARY, KMP_TASKING or OMP_MAX_ACTIVE_LEVELS "
                 "serialise them)"};
  }
  return ok_status();
}

void OmpTasks::region(std::promise<Status>& opened) {
  omp_set_dynamic(0);
  Status allowed = check_environment(threads_, io_threads_);
  if (allowed.ok()) {
#pragma omp parallel num_threads(threads_ + 1)
    {
      const KeptMask mask;
      const int thread = omp_get_thread_num();
      if (thread == 0) {
        if (ask_for_short_slice()) slice_.store(kSliced);
        director_.thread_started(ThreadRole::coordinator, 0);
      } else {
        ask_for_default_slice();
        director_.thread_started(ThreadRole::compute, thread - 1);
        sched_getaffinity(0, sizeof(cpu_set_t), &bound_[size_t(thread - 1)]);
      }
#pragma omp barrier
      if (thread == 0) {
        hot_.place(bound_, mask.mask());
        Status probed = probe(omp_get_num_threads());
        const bool ready = probed.ok();
        opened.set_value(std::move(probed));
        if (ready) coordinate();
        stopped_.store(true);
        ledger_.wake_all();
      } else {
        if (std::string_view(slice_.load()) != kSliced && make_nice()) slice_.store("nice");
        compute(thread - 1);
      }
    }
  } else {
    opened.set_value(std::move(allowed));
  }
}

void OmpTasks::coordinate() {
  std::vector<Message> batch;
  bool stop = false;
  while (!stop) {
    queue_.take(batch);
    for (const Message& message : batch) {
      if (message.kind == Message::stop) {
        stop = true;
      } else {
        serve(message);
      }
    }
    director_.pump();
  }
  OMPIPE_CHECK(outstanding_ == 0, "the scheduler was closed with tasks outstanding");
}

void OmpTasks::serve(const Message& message) {
  if (message.kind == Message::hot) {
    if (message.id == kHotTaskEnded) hot_task_ = false;
    if (!hot_task_ && ledger_.hot.may_claim()) hot_task_ = true, create_hot_task(this);
    return;
  }
  if (message.kind == Message::prepacked) outstanding_ -= 2;
  if (message.kind == Message::segment_done) {
    --outstanding_;
    chains_.segment_done(message.id, [&](SlotToken) { ledger_.add(TaskClass::critical); });
  }
  director_.on_message(message);
}

// Takes tiles of some kernel, if there is one, and hands on the wake-up of a task that this thread may have had.
bool OmpTasks::help(int index) {
  if (!ledger_.has_tiles()) return false;
  ledger_.pass_on();
  return tiles_.help(index);
}

// What a compute thread does for the life of the region: critical tasks, then hot invocations, then tiles, those of hot
// runs last because they keep it, then speculative tasks, else sleep.
void OmpTasks::compute(int index) {
  if (!kOwnParking) return;
  while (!stopped_.load(std::memory_order_relaxed)) {
    if (ledger_.critical() <= 0) {
      if (ledger_.hot.may_claim() && hot_.run_claimable(index)) continue;
      if (help(index)) continue;
      if (ledger_.hot.wants(index)) {
        hot_.help(index, stopped_);
        continue;
      }
    }
    if (ledger_.begin_search()) {
      searching = true;
#pragma omp taskyield
      if (searching) searching = false, ledger_.end_search();
      continue;
    }
    if (help(index)) continue;
    ledger_.park(stopped_, index);
  }
}

}  // namespace

Result<std::unique_ptr<Scheduler>> open_omp_tasks(const SchedulerOptions& options, Director& director) {
  if (root_threads_lost_by_fork()) {
    return Error{ErrorKind::environment, "environment", "fork",
                 "this process was forked from one that had opened a region; needed: an exec first"};
  }
  auto scheduler = std::make_unique<OmpTasks>(options, director);
  const Status status = scheduler->open();
  if (!status.ok()) return status.error();
  return Result<std::unique_ptr<Scheduler>>(std::move(scheduler));
}

}  // namespace ompipe::schedule
