// A runtime that can't start says what the system refused, and leaves nothing behind.
#include <doctest/doctest.h>

#include "../no_new_threads.h"
#include "rig.h"

namespace ompipe::session::testing {

TEST_SUITE_BEGIN("start");

TEST_CASE("threads that the system refuses are an error of the environment that names them") {
  const RuntimeOptions options{.threads = 2, .io_threads = 2};
  // Its team waits for the next runtime, which then lacks only threads of its own.
  {
    const Rig first(options);
  }
  ompipe::testing::without_new_threads([&] {
    const Result<std::shared_ptr<Runtime>> tasks = Runtime::open(options);
    REQUIRE_FALSE(tasks.ok());
    CHECK(tasks.error().kind == ErrorKind::environment);
    CHECK(tasks.error().message() == "start: I/O threads: started 0 of 2: Resource temporarily unavailable");
    const Result<std::shared_ptr<Runtime>> sequential = Runtime::open({.scheduler = "sequential"});
    REQUIRE_FALSE(sequential.ok());
    CHECK(sequential.error().kind == ErrorKind::environment);
    CHECK(sequential.error().message() ==
          "start: runtime thread: the system refuses it: Resource temporarily unavailable");
  });
  Rig again(options);
  CHECK(decode(again.open(), 1).ok());
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
