#include "ompipe/schedule/root_threads.h"

#include <unistd.h>

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
  std::packaged_task<void()> job;
};

// Never destroyed: at the process's exit a root thread may still wait on its condition variable.
struct Pool {
  std::mutex mutex;
  std::vector<RootThread*> idle;
  pid_t process = 0;  // that the threads belong to; 0: none yet
};
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

void serve(RootThread* self) {
  for (;;) {
    std::packaged_task<void()> job;
    {
      std::unique_lock lock(self->mutex);
      self->has_job.wait(lock, [&] { return self->job.valid(); });
      job = std::move(self->job);
    }
    job();
  }
}

RootThread* idle_or_new() {
  {
    std::lock_guard lock(pool().mutex);
    pool().process = getpid();
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

std::future<void> run_on_root_thread(std::function<void()> job) {
  RootThread* const thread = idle_or_new();
  std::packaged_task<void()> task([thread, job = std::move(job)] {
    job();
    std::lock_guard lock(pool().mutex);
    pool().idle.push_back(thread);
  });
  std::future<void> finished = task.get_future();
  {
    std::lock_guard lock(thread->mutex);
    thread->job = std::move(task);
  }
  thread->has_job.notify_one();
  return finished;
}

bool root_threads_lost_by_fork() {
  std::lock_guard lock(pool().mutex);
  return pool().process != 0 && pool().process != getpid();
}

}  // namespace ompipe::schedule
