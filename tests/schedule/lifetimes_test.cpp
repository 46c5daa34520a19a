// Schedulers come and go, several at once, in a program that uses OpenMP itself: nothing is left behind but root
// threads.
#include <doctest/doctest.h>
#include <omp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "ompipe/schedule/environment.h"
#include "pipeline_rig.h"
#include "script.h"

namespace ompipe::schedule {
namespace {

size_t threads_of_process() {
  return size_t(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator()));
}

// What a host program does meanwhile: regions of its own, with their own reductions.
class Host {
 public:
  Host() : thread_([this] { compute(); }) {}
  ~Host() {
    stopped_ = true;
    thread_.join();
    CHECK(regions_.load() > 0);
    CHECK(wrong_.load() == 0);
  }

 private:
  void compute() {
    do {
      int64_t sum = 0;
#pragma omp parallel for num_threads(3) reduction(+ : sum)
      for (int64_t i = 0; i < 1000; ++i) sum += i;
      wrong_ += sum != 499'500;
      ++regions_;
    } while (!stopped_.load());
  }

  std::atomic<bool> stopped_{false};
  std::atomic<int> regions_{0}, wrong_{0};
  std::thread thread_;
};

PipelineShape small_shape(int threads, uint64_t seed) {
  PipelineShape shape;
  shape.threads = threads;
  shape.segments = 10;
  shape.seed = seed;
  return shape;
}

}  // namespace

TEST_SUITE_BEGIN("lifetimes");

TEST_CASE("a scheduler opens and closes two hundred times, with changing teams, and threads don't pile up") {
  size_t most = 0, after_first = 0;
  for (int i = 0; i < 200; ++i) {
    const int threads = 1 << (i % 4);
    Script script;
    script.open("omp-tasks", threads);
    script.step([](Scheduler& scheduler) {
      scheduler.create_load(5);
      scheduler.open_load(5, TaskClass::critical);
    });
    REQUIRE(script.await_prepacks(1));
    most = std::max(most, threads_of_process());
    if (i == 3) after_first = most;
  }
  CHECK(most == after_first);
}

TEST_CASE("several schedulers run at once beside a host's own regions") {
  const Host host;
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 3; ++user) {
    users.emplace_back([&, user] {
      for (int i = 0; i < 5; ++i) {
        const PipelineResult result =
            run_pipeline("omp-tasks", small_shape(1 + (user + i) % 4, uint64_t(user * 8 + i)));
        wrong += result.wrong != 0 || result.counters.ran_on_coordinator != 0;
      }
    });
  }
  for (std::thread& user : users) user.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("a scheduler opens inside a host's region, and a host's region inside its team's life") {
  std::atomic<int> wrong{0};
#pragma omp parallel num_threads(2)
  {
    const PipelineResult result = run_pipeline("omp-tasks", small_shape(2, uint64_t(omp_get_thread_num())));
    wrong += result.wrong != 0;
  }
  CHECK(wrong.load() == 0);
}

TEST_CASE("threads go back with the CPU mask that they came with") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  for (int round = 0; round < 2; ++round) {
    std::atomic<int> bound{0};
    Script script;
    script.on_thread = [&](ThreadRole, int) {
      cpu_set_t mask;
      bound += sched_getaffinity(0, sizeof mask, &mask) != 0 || !CPU_EQUAL(&mask, &all);
      int first = 0;
      while (!CPU_ISSET(first, &all)) ++first;
      CPU_ZERO(&mask);
      CPU_SET(first, &mask);
      sched_setaffinity(0, sizeof mask, &mask);
    };
    script.open("omp-tasks", 3);
    CHECK(bound.load() == 0);
  }
}

TEST_CASE("a forked child is refused and can leave") {
  {
    Script().open("omp-tasks", 1);
  }
  const pid_t child = fork();
  if (child == 0) {
    Script script;
    const auto opened = open_scheduler("omp-tasks", {.threads = 1}, script);
    _exit(!opened.ok() && opened.error().kind == ErrorKind::environment && opened.error().subject == "fork" ? 7 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("names and teams that don't exist are refused") {
  Script script;
  CHECK(open_scheduler("omp-task", {.threads = 1}, script).error().kind == ErrorKind::usage);
  CHECK(open_scheduler("omp-tasks", {.threads = 0}, script).error().kind == ErrorKind::usage);
  CHECK(open_scheduler("omp-tasks", {.threads = kMaxThreads + 1}, script).error().kind == ErrorKind::usage);
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
