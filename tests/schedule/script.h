// A director without a policy: a test creates gates and tasks itself, step by step, and waits for what they report.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ompipe/schedule/scheduler.h"

namespace ompipe::schedule {

// Bodies are what the test put into on_prepack and on_segment before it opened. Everything else: one test thread.
class Script : public Director {
 public:
  std::function<void(LoadToken)> on_prepack = [](LoadToken) {};
  std::function<void(SlotToken, Worker&)> on_segment = [](SlotToken, Worker&) {};
  std::function<void(ThreadRole, int)> on_thread = [](ThreadRole, int) {};

  // Checks that it opened. Closes with the script.
  void open(const std::string& scheduler, int threads);
  Scheduler& scheduler() { return *scheduler_; }
  // Runs `step` in the serial context and returns when it has run.
  void step(std::function<void(Scheduler&)> step);
  // Wait until so many have reported in all; false if that was given up.
  bool await_prepacks(size_t count);
  bool await_segments(size_t count);
  bool await_room(size_t count);
  // In the order of their reports.
  std::vector<LoadToken> prepacks();
  std::vector<SlotToken> segments();
  size_t rooms();

  void prepack(LoadToken load, Worker&) noexcept override { on_prepack(load); }
  void segment(SlotToken slot, Worker& worker) noexcept override { on_segment(slot, worker); }
  void on_message(const Message& message) override;
  void pump() override {}
  bool read_one() override { return false; }
  void thread_started(ThreadRole role, int index) override { on_thread(role, index); }

 private:
  bool await(const std::function<bool()>& reached);

  std::mutex mutex_;
  std::condition_variable reported_;
  std::vector<LoadToken> prepacks_;
  std::vector<SlotToken> segments_;
  size_t rooms_ = 0;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace ompipe::schedule
