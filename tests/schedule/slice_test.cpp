// A slice is what the kernel says it is, not what it was asked for.
#include "ompipe/schedule/slice.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

namespace ompipe::schedule {

TEST_SUITE_BEGIN("slice");

TEST_CASE("the short slice is in force exactly where the kernel has slices") {
  utsname system{};
  REQUIRE(uname(&system) == 0);
  int major = 0, minor = 0;
  REQUIRE(std::sscanf(system.release, "%d.%d", &major, &minor) == 2);
  const bool has_slices = major > 6 || (major == 6 && minor >= 12);
  std::thread([&] {
    const bool sliced = ask_for_short_slice();
    CHECK(!(sliced && !has_slices));
    ask_for_default_slice();
  }).join();
}

TEST_CASE("a nice thread is nice alone") {
  int inside = 0;
  const int before = getpriority(PRIO_PROCESS, 0);
  std::thread([&] {
    if (make_nice()) inside = getpriority(PRIO_PROCESS, 0);
  }).join();
  CHECK(inside == 10);
  CHECK(getpriority(PRIO_PROCESS, 0) == before);
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
