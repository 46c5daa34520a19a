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

}  // namespace

TEST_SUITE_BEGIN("root_threads");

TEST_CASE("a hundred regions one after another, of changing size, use one thread, which lives on") {
  omp_set_dynamic(0);
  std::vector<pid_t> threads;
  bool sizes_right = true;
  for (int i = 0; i < 100; ++i) {
    const int size = 2 + i % 7;
    run_on_root_thread([&] {
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
      jobs.push_back(run_on_root_thread([&, i] {
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

TEST_CASE("a forked child knows that the threads are not there") {
  run_on_root_thread([] {}).wait();
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
