// The thread that gives evicted objects' pages back: what has not had its turn can be taken out again.
#include "discarder.h"

#include <doctest/doctest.h>

#include <future>

namespace ompipe::session::testing {

TEST_SUITE_BEGIN("discarder");

TEST_CASE("kept before its turn, gone after it, and everything queued goes before the end") {
  arenas::Budget budget;
  arenas::BlockArena arena(budget, {.domain = arenas::Domain::prepared, .retention_cap_bytes = 0});
  const auto block = [&] {
    Result<arenas::Allocation> made = arena.allocate(4096, arenas::Urgency::critical, "test");
    REQUIRE(made.ok());
    return *std::move(made);
  };
  std::promise<void> first_gone, go_on;
  std::atomic<bool> second_gone{false}, third_gone{false};
  {
    Discarder discarder;
    REQUIRE(discarder.start().ok());
    discarder.discard({nullptr, 1}, block(), [&] {
      first_gone.set_value();
      go_on.get_future().wait();
    });
    first_gone.get_future().wait();
    discarder.discard({nullptr, 2}, block(), [&] { second_gone = true; });
    discarder.discard({nullptr, 3}, block(), [&] { third_gone = true; });
    CHECK_FALSE(discarder.keep({nullptr, 1}));
    const arenas::Allocation kept = discarder.keep({nullptr, 2});
    REQUIRE(kept);
    CHECK_FALSE(discarder.keep({nullptr, 2}));
    CHECK(budget.usage()[arenas::Domain::prepared].live_bytes == 2 * 4096);
    go_on.set_value();
  }
  CHECK_FALSE(second_gone);
  CHECK(third_gone);
  CHECK(budget.audit().empty());
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
