// Root threads stay: jobs of one team size share one if they come one after another and have one each if they come at
// once; none ever ends.
#include "ompipe/schedule/root_threads.h"

#include <doctest/doctest.h>
#include <omp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <set>
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

std::future<void> run(int team, std::function<void()> job) {
  Result<std::future<void>> running = run_on_root_thread(team, std::move(job));
  REQUIRE(running.ok());
  return *std::move(running);
}

}  // namespace

TEST_SUITE_BEGIN("root_threads");

TEST_CASE("regions one after another: one thread for each size, however often it changes, which lives on") {
  omp_set_dynamic(0);
  std::map<int, std::set<pid_t>> threads;
  bool sizes_right = true;
  for (int i = 0; i < 100; ++i) {
    const int size = 2 + i % 7;
    run(size, [&] {
      omp_set_dynamic(0);
      sizes_right = sizes_right && region(size) == size;
      threads[size].insert(pid_t(syscall(SYS_gettid)));
    }).wait();
  }
  CHECK(sizes_right);
  std::set<pid_t> all;
  for (const auto& [size, own] : threads) {
    CHECK(own.size() == 1);
    CHECK(thread_lives(*own.begin()));
    all.insert(*own.begin());
  }
  CHECK(all.size() == 7);
}

TEST_CASE("eight regions at once have a thread each, and the next eight have the same ones") {
  std::vector<std::vector<pid_t>> rounds;
  for (int round = 0; round < 5; ++round) {
    constexpr int kJobs = 8;
    std::latch all_run(kJobs);
    std::vector<pid_t> threads(kJobs);
    std::vector<std::future<void>> jobs;
    for (int i = 0; i < kJobs; ++i) {
      jobs.push_back(run(3, [&, i] {
        all_run.arrive_and_wait();
        region(3);
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
      Result<std::future<void>> job = run_on_root_thread(2, [&] {
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
  run(2, [] {}).wait();
}

TEST_CASE("a forked child knows that the threads are not there") {
  run(2, [] {}).wait();
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
