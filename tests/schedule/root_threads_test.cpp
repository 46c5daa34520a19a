// Root threads stay: jobs one after another share one, jobs at once have one each, and none ever ends.
#include "ompipe/schedule/root_threads.h"

#include <doctest/doctest.h>
#include <omp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <string>
#include <vector>

#include "../no_new_threads.h"
#include "gate.h"
#include "script.h"

namespace ompipe::schedule {
namespace {

bool thread_lives(pid_t thread) { return access(("/proc/self/task/" + std::to_string(thread)).c_str(), F_OK) == 0; }

// Opens one region of that many threads and returns how many took part.
int region(int threads) {
  std::atomic<int> members{0};
#pragma omp parallel num_threads(threads)
  ++members;
  return members.load();
}

std::future<void> run(std::function<void()> job) {
  Result<std::future<void>> running = run_on_root_thread(std::move(job));
  REQUIRE(running.ok());
  return *std::move(running);
}

}  // namespace

TEST_SUITE_BEGIN("root_threads");

TEST_CASE("a hundred regions one after another, of changing size, use one thread, which lives on") {
  omp_set_dynamic(0);
  std::vector<pid_t> threads;
  bool sizes_right = true;
  for (int i = 0; i < 100; ++i) {
    const int size = 2 + i % 7;
    run([&] {
      omp_set_dynamic(0);
      sizes_right = sizes_right && region(size) == size;
      threads.push_back(pid_t(syscall(SYS_gettid)));
    }).wait();
  }
  CHECK(sizes_right);
  CHECK(std::count(threads.begin(), threads.end(), threads.front()) == 100);
  CHECK(thread_lives(threads.front()));
}

TEST_CASE("eight regions at once have a thread each, and the next eight have the same ones") {
  std::vector<std::vector<pid_t>> rounds;
  for (int round = 0; round < 5; ++round) {
    constexpr int kJobs = 8;
    std::latch all_run(kJobs);
    std::vector<pid_t> threads(kJobs);
    std::vector<std::future<void>> jobs;
    for (int i = 0; i < kJobs; ++i) {
      jobs.push_back(run([&, i] {
        all_run.arrive_and_wait();
        region(2 + (i + round) % 3);
        threads[size_t(i)] = pid_t(syscall(SYS_gettid));
      }));
    }
    for (std::future<void>& job : jobs) job.wait();
    std::sort(threads.begin(), threads.end());
    CHECK(std::adjacent_find(threads.begin(), threads.end()) == threads.end());
    rounds.push_back(threads);
    CHECK(rounds.front() == threads);
    for (pid_t thread : threads) CHECK(thread_lives(thread));
  }
}

TEST_CASE("a root thread that the system refuses is an error, and the pool goes on without it") {
  testing::without_new_threads([] {
    Gate finish;
    std::atomic<bool> waited{true};
    std::vector<std::future<void>> jobs;
    for (;;) {
      Result<std::future<void>> job = run_on_root_thread([&] {
        if (!finish.wait()) waited = false;
      });
      if (!job.ok()) {
        CHECK(job.error().kind == ErrorKind::environment);
        break;
      }
      jobs.push_back(*std::move(job));
    }
    Script script;
    const auto opened = open_scheduler("omp-tasks", {.threads = 1}, script);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().kind == ErrorKind::environment);
    CHECK(opened.error().message() == "start: root thread: the system refuses it: Resource temporarily unavailable");
    finish.open();
    for (std::future<void>& job : jobs) job.wait();
    CHECK(waited);
  });
  run([] {}).wait();
}

TEST_CASE("a forked child knows that the threads are not there") {
  run([] {}).wait();
  CHECK_FALSE(root_threads_lost_by_fork());
  const pid_t child = fork();
  if (child == 0) _exit(root_threads_lost_by_fork() ? 7 : 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
