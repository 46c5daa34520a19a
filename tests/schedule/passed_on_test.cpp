// The wake-up of a task, when the thread that it brought turns to a hot run: another thread is woken for it.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gate.h"
#include "hot_team.h"
#include "ompipe/schedule/ledger.h"

namespace ompipe::schedule {
namespace {

bool sleeps(pid_t thread) {
  std::string pid, name, state;
  std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat") >> pid >> name >> state;
  return state == "S";
}

// Two threads that park and then do what a compute thread does: hot work before speculative tasks.
class Pair : public Director {
 public:
  Pair() : tiles_(ledger, 2), team_(ledger, tiles_, *this, 2) {
    ledger.hot.set_helpers(0b11);
    for (int worker = 0; worker < 2; ++worker) threads_.emplace_back([this, worker] { compute(worker); });
    for (std::atomic<pid_t>& id : ids_) {
      while (id.load() == 0 || !sleeps(id.load())) std::this_thread::yield();
    }
  }
  ~Pair() override {
    stopped_ = true;
    ledger.wake_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // One run: who comes second, before the first has taken it off the count, finds nothing.
  int run_claimable(Worker&) noexcept override {
    if (claimed_.exchange(true)) return -1;
    ledger.hot.taken();
    waited = task_begun.wait();
    return 0;
  }
  void ran_claimable(int) noexcept override { hot_ended.open(); }
  void prepack(LoadToken, Worker&) noexcept override {}
  void segment(SlotToken, Worker&) noexcept override {}
  void on_message(const Message&) override {}
  void pump() override {}
  bool read_one() override { return false; }
  void thread_started(ThreadRole, int) override {}

  Ledger ledger{2};
  Gate task_begun, hot_ended;
  std::atomic<bool> waited{false};

 private:
  void compute(int worker) {
    ids_[size_t(worker)] = gettid();
    while (!stopped_.load()) {
      ledger.park(stopped_, worker);
      if (ledger.hot.may_claim() && team_.run_claimable(worker)) continue;
      if (ledger.hot.wants(worker)) team_.help(worker, stopped_);
      if (!ledger.begin_search()) continue;
      ledger.end_search();
      ledger.started(TaskClass::speculative);
      task_begun.open();
    }
  }

  TileSharing tiles_;
  HotTeam team_;
  std::atomic<bool> stopped_{false}, claimed_{false};
  std::array<std::atomic<pid_t>, 2> ids_{};
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_SUITE_BEGIN("hot");

// Counted without a wake-up of its own, as if the thread that the task has woken had come to it first.
TEST_CASE("a thread that claims a hot run on its way to a task wakes another for the task") {
  Pair pair;
  pair.ledger.hot.published();
  pair.ledger.add(TaskClass::speculative);
  CHECK(pair.hot_ended.wait());
  CHECK(pair.waited);
}

TEST_CASE("a thread that helps a hot run on its way to a task wakes another for the task") {
  Pair pair;
  pair.ledger.hot.want(1, 0);
  pair.ledger.add(TaskClass::speculative);
  CHECK(pair.task_begun.wait());
  pair.ledger.hot.end_want(1, 0);
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
