// What a runtime is made of, and how its parts meet: the scheduler's director, the policy's effects, the I/O service's
// sink.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "discarder.h"
#include "home_process.h"
#include "hot_runs.h"
#include "ompipe/arenas/mutex.h"
#include "ompipe/arenas/placement.h"
#include "ompipe/arenas/topology.h"
#include "ompipe/io/io_service.h"
#include "ompipe/session/runtime.h"
#include "ompipe/store/prepare_chunk.h"
#include "policy.h"

namespace ompipe::session {

class RuntimeCore : public schedule::Director,
                    public Effects,
                    public HotHost,
                    public io::CompletionSink,
                    public device::EventSink {
 public:
  static Result<std::unique_ptr<RuntimeCore>> open(const RuntimeOptions& options);
  ~RuntimeCore() override;

  // Any thread. Served in the serial context.
  void submit(std::unique_ptr<Invocation> invocation) override;
  void submit(std::unique_ptr<Preparation> preparation);
  // Any thread but the runtime's own: runs `function` in the serial context and waits for it.
  void call(std::function<void()> function);
  // The same for an event of the policy's that ends a completion, and waits for that.
  Status ask(const std::function<void(Completion&)>& event);

  const HomeProcess& home() const { return home_; }
  const RuntimeOptions& options() const { return options_; }
  arenas::Budget& budget() { return budget_; }
  arenas::MemoryBinding binding(arenas::Domain domain) const { return placement_.binding(domain); }
  device::Arena& device_arena() { return device_arena_; }
  Policy& policy() { return policy_; }
  HotRuns& hot_runs() { return hot_runs_; }
  int workers() const { return scheduler_->threads(); }
  MemoryLimits limits() const;
  Status set_limits(const MemoryLimits& limits);
  Result<uint64_t> trim(uint64_t bytes);
  RuntimeFigures figures();
  Status audit();

  // schedule::Director
  void prepack(schedule::LoadToken load, schedule::Worker& worker) noexcept override;
  void segment(schedule::SlotToken slot, schedule::Worker& worker) noexcept override;
  void on_message(const schedule::Message& message) override;
  void pump() override { policy_.pump(); }
  int run_claimable(schedule::Worker& worker) noexcept override { return hot_runs_.run_claimable(worker); }
  void ran_claimable(int slot) noexcept override { hot_runs_.ran_claimable(slot); }
  // A scheduler that reads by itself may ask before start() has made the service.
  bool read_one() override { return reads_open_.load(std::memory_order_acquire) && io_->run_one(); }
  void thread_started(schedule::ThreadRole role, int index) override;

  // Effects
  void read(const ReadOrder& order) override;
  void promote_read(uint64_t id, Priority priority) override;
  bool withdraw_read(uint64_t id) override;
  bool discard(SessionState& session, plan::ObjectId object, arenas::Allocation allocation) override;
  arenas::Allocation keep(SessionState& session, plan::ObjectId object) override;
  void run_on_device(uint64_t id, std::vector<device::Command> commands) override;
  Observer& observer() override { return *observer_; }
  int32_t executor() const override { return executor_; }

  // HotHost
  void cancel(CompletionRef handle) override;
  void run_here(Completion& handle) override { hot_runs_.run_here(handle); }
  schedule::Scheduler& scheduler() override { return *scheduler_; }
  void hot_released() override { told_->post({.kind = released}); }

  // io::CompletionSink
  void complete(io::Completion completion) noexcept override;

  // device::EventSink
  void ended(device::Event event) noexcept override;

 private:
  enum MessageKind : uint8_t {
    run = schedule::Message::first_free,
    preparation,
    cancellation,
    read_finished,
    discard_finished,
    device_ended,
    released,
    function
  };

  RuntimeCore(const RuntimeOptions& options, arenas::Topology topology, arenas::Placement placement);
  Status start();
  void bind_thread(const arenas::ThreadPlace& place);
  void prepack_rider(Load& load, store::ChunkJob job);
  void check_slice(Load& load, schedule::Worker& worker);
  void read_finished_message(std::unique_ptr<io::Completion> completion);

  const HomeProcess home_;
  const RuntimeOptions options_;
  const arenas::Topology topology_;
  arenas::Placement placement_;
  Mutex unbound_mutex_;
  std::vector<std::string> unbound_ OMPIPE_GUARDED_BY(unbound_mutex_);
  const int32_t executor_;
  std::unique_ptr<Observer> silent_;  // when nobody observes
  Observer* observer_;
  std::unique_ptr<io::Device> own_device_;
  io::Device* device_;
  arenas::Budget budget_;  // the limits in force, but for what arenas may keep
  arenas::BlockArena preparation_, execution_, io_arena_;
  device::Arena device_arena_;
  std::atomic<uint64_t> retained_limit_bytes_;
  Policy policy_;
  HotRuns hot_runs_;
  bool fallback_used_ = false;
  bool inline_reads_ = false;
  bool backend_open_ = false;
  std::atomic<uint64_t> portable_read_bytes_{0};
  // In the order in which they end: the discarder, the I/O service and the backend post to the scheduler.
  std::unique_ptr<schedule::Scheduler> scheduler_;
  // The same, for a thread of the team that has ended the last handle: the runtime may be closed before it has left.
  schedule::Scheduler* told_ = nullptr;
  std::unique_ptr<io::IoService> io_;
  std::atomic<bool> reads_open_{false};
  std::unique_ptr<Discarder> discarder_;
};

}  // namespace ompipe::session
