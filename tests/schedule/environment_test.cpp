// Settings that would break the region are refused by name before it opens; all others do no harm. Each is tried in a
// process of its own, because the OpenMP runtime reads them once.
#include "ompipe/schedule/environment.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "pipeline_rig.h"
#include "script.h"

namespace ompipe::schedule {
namespace {

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), size_t(length)) : "";
}

// What the guest below prints under these settings.
std::string guest(const std::string& settings, int threads = 2) {
  const std::string command = "OMPIPE_GUEST_THREADS=" + std::to_string(threads) + " " + settings + " timeout 60 '" +
                              own_program() + "' --no-skip --test-case='a guest under these settings' --minimal 2>&1";
  FILE* const output = popen(command.c_str(), "r");
  std::string text;
  for (std::array<char, 512> line; fgets(line.data(), int(line.size()), output);) {
    if (std::string(line.data()).starts_with("guest:")) text += line.data();
  }
  pclose(output);
  return text;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

TEST_SUITE_BEGIN("environment");

TEST_CASE("a guest under these settings" * doctest::skip()) {
  PipelineShape shape;
  shape.threads = std::stoi(std::getenv("OMPIPE_GUEST_THREADS"));
  shape.segments = 20;
  {
    Script script;
    const auto opened = open_scheduler("omp-tasks", {.threads = shape.threads, .io_threads = 2}, script);
    if (!opened.ok()) {
      std::printf("guest: refused %s\n", opened.error().message().c_str());
      return;
    }
  }
  const PipelineResult result = run_pipeline("omp-tasks", shape);
  std::printf("guest: %s\n", result.wrong == 0 && result.counters.ran_on_coordinator == 0 ? "right" : "wrong");
}

TEST_CASE("settings that forbid the team are refused by name") {
  std::vector<std::pair<std::string, std::string>> refused = {{"OMP_THREAD_LIMIT=1", "OMP_THREAD_LIMIT"},
                                                              {"OMP_THREAD_LIMIT=2", "OMP_THREAD_LIMIT"},
                                                              {"OMP_MAX_ACTIVE_LEVELS=0", "OMP_MAX_ACTIVE_LEVELS"}};
  if (kLibomp) {
    refused.push_back({"KMP_LIBRARY=serial", "KMP_LIBRARY"});
    refused.push_back({"KMP_LIBRARY=SERIAL", "KMP_LIBRARY"});
    refused.push_back({"KMP_TASKING=0", "KMP_TASKING"});
    refused.push_back({"KMP_TASKING=1", "KMP_TASKING"});
    refused.push_back({"KMP_DEVICE_THREAD_LIMIT=2", "KMP_DEVICE_THREAD_LIMIT"});
  }
  for (const auto& [settings, variable] : refused) {
    CAPTURE(settings);
    const std::string text = guest(settings);
    CAPTURE(text);
    CHECK(text.starts_with("guest: refused"));
    CHECK(text.find(variable) != text.npos);
  }
}

TEST_CASE("a thread that never yields is refused where the threads outnumber the cores") {
  if (!kLibomp) {
    MESSAGE("left out: libgomp knows no KMP_USE_YIELD");
    return;
  }
  const std::string oversubscribed = guest("KMP_USE_YIELD=0", usable_cores());
  CAPTURE(oversubscribed);
  CHECK(oversubscribed.starts_with("guest: refused"));
  CHECK(oversubscribed.find("KMP_USE_YIELD") != oversubscribed.npos);
}

TEST_CASE("settings that leave the team alone do no harm") {
  std::vector<std::string> harmless = {"",
                                       "OMP_NUM_THREADS=1",
                                       "OMP_DYNAMIC=true",
                                       "OMP_WAIT_POLICY=active",
                                       "OMP_WAIT_POLICY=passive",
                                       "OMP_PROC_BIND=true OMP_PLACES=cores",
                                       "OMP_PROC_BIND=close OMP_PLACES=threads",
                                       "OMP_PROC_BIND=spread OMP_PLACES=sockets",
                                       "OMP_MAX_TASK_PRIORITY=16",
                                       "OMP_CANCELLATION=true",
                                       "OMP_THREAD_LIMIT=3",
                                       "OMP_MAX_ACTIVE_LEVELS=1",
                                       "OMP_NESTED=true"};
  if (kLibomp) {
    for (const char* setting : {"KMP_BLOCKTIME=0", "KMP_BLOCKTIME=infinite", "KMP_TASKING=2", "KMP_LIBRARY=turnaround",
                                "KMP_AFFINITY=disabled", "KMP_AFFINITY=compact", "KMP_TASK_STEALING_CONSTRAINT=1",
                                "KMP_ENABLE_TASK_THROTTLING=0"}) {
      harmless.push_back(setting);
    }
  }
  if (!kLibomp) {
    for (const char* setting : {"KMP_LIBRARY=serial", "KMP_TASKING=0", "KMP_USE_YIELD=0"}) harmless.push_back(setting);
  }
  for (const std::string& settings : harmless) {
    CAPTURE(settings);
    CHECK(guest(settings) == "guest: right\n");
  }
}

TEST_CASE("on one CPU of the machine it still runs") {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &set)) ++first;
  CHECK(guest("taskset -c " + std::to_string(first)) == "guest: right\n");
}

TEST_CASE("the report can say which runtime and which settings are in force") {
  CHECK(openmp_runtime().find(kLibomp ? "libomp" : "libgomp") != std::string::npos);
  setenv("KMP_OMPIPE_TEST", "a=b", 1);
  CHECK(openmp_environment().at("KMP_OMPIPE_TEST") == "a=b");
  unsetenv("KMP_OMPIPE_TEST");
  CHECK_FALSE(openmp_environment().contains("KMP_OMPIPE_TEST"));
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
