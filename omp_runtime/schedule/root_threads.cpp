#include "ompipe/schedule/root_threads.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ompipe/arenas/start_thread.h"

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
  std::map<int, std::vector<RootThread*>> idle;  // by the size of their team
};
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

// The process that the threads belong to; 0: none yet. Outside the pool, whose lock a forked child may find held.
std::atomic<pid_t> process{0};

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

Result<RootThread*> idle_or_new(int team) {
  process.store(getpid());
  {
    std::lock_guard lock(pool().mutex);
    std::vector<RootThread*>& idle = pool().idle[team];
    if (!idle.empty()) {
      RootThread* const thread = idle.back();
      idle.pop_back();
      return thread;
    }
  }
  auto thread = std::make_unique<RootThread>();
  Result<std::thread> started = start_thread("root thread", [self = thread.get()] { serve(self); });
  if (!started.ok()) return started.error();
  started->detach();
  return thread.release();
}

}  // namespace

Result<std::future<void>> run_on_root_thread(int team, std::function<void()> job) {
  const Result<RootThread*> found = idle_or_new(team);
  if (!found.ok()) return found.error();
  RootThread* const thread = *found;
  std::packaged_task<void()> task([team, thread, job = std::move(job)] {
    job();
    std::lock_guard lock(pool().mutex);
    pool().idle[team].push_back(thread);
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
  const pid_t owner = process.load();
  return owner != 0 && owner != getpid();
}

}  // namespace ompipe::schedule
