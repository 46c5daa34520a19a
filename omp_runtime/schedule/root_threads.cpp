#include "ompipe/schedule/root_threads.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ompipe::schedule {
namespace {

struct RootThread {
  std::mutex mutex;
  std::condition_variable has_job;
  std::function<void()> job;
};

// Never destroyed: at the process's exit a root thread may still wait on its condition variable.
struct Pool {
  std::mutex mutex;
  std::vector<RootThread*> idle;
};
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

void serve(RootThread* self) {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(self->mutex);
      self->has_job.wait(lock, [&] { return self->job != nullptr; });
      job = std::exchange(self->job, nullptr);
    }
    job();
    job = nullptr;
    std::lock_guard lock(pool().mutex);
    pool().idle.push_back(self);
  }
}

RootThread* idle_or_new() {
  {
    std::lock_guard lock(pool().mutex);
    if (!pool().idle.empty()) {
      RootThread* const thread = pool().idle.back();
      pool().idle.pop_back();
      return thread;
    }
  }
  auto* const thread = new RootThread;
  std::thread(serve, thread).detach();
  return thread;
}

}  // namespace

void run_on_root_thread(std::function<void()> job) {
  RootThread* const thread = idle_or_new();
  {
    std::lock_guard lock(thread->mutex);
    thread->job = std::move(job);
  }
  thread->has_job.notify_one();
}

}  // namespace ompipe::schedule
