// The device's memory as an arena: what is counted, and where it goes back to.
#include "ompipe/device/arena.h"

#include <doctest/doctest.h>

#include "ompipe/device/emulated.h"

namespace ompipe::device {

using arenas::Domain;

TEST_SUITE_BEGIN("arena");

TEST_CASE("drawn from a reservation, counted in the device's domain alone, given back once") {
  arenas::BudgetLimits limits;
  limits.domain_bytes[Domain::device] = 3 * arenas::kPageBytes;
  limits.global_bytes = arenas::kPageBytes;
  arenas::Budget budget(limits);
  EmulatedBackend backend({});
  Arena arena(budget, &backend);
  auto reservation = budget.reserve({{Domain::device, 2 * arenas::kPageBytes}}, arenas::Urgency::critical);
  REQUIRE(reservation.has_value());
  CHECK_FALSE(budget.reserve({{Domain::device, 2 * arenas::kPageBytes}}, arenas::Urgency::critical).has_value());
  Result<Memory> memory = arena.allocate(*reservation, 5000);
  REQUIRE(memory.ok());
  CHECK(memory->bytes() == 2 * arenas::kPageBytes);
  CHECK(memory->at() != Address::none);
  CHECK(memory->at(64) == memory->at() + 64);
  CHECK(reservation->left_bytes(Domain::device) == 0);
  CHECK(budget.usage()[Domain::device].live_bytes == 2 * arenas::kPageBytes);
  CHECK(budget.usage().global_bytes == 0);
  Memory moved = *std::move(memory);
  CHECK_FALSE(bool(*memory));
  moved.reset();
  moved.reset();
  CHECK(budget.usage()[Domain::device].live_bytes == 0);
}

TEST_CASE("without a backend it counts and has no memory") {
  arenas::Budget budget;
  Arena arena(budget, nullptr);
  auto reservation = budget.reserve({{Domain::device, arenas::kPageBytes}}, arenas::Urgency::critical);
  const Result<Memory> memory = arena.allocate(*reservation, 1);
  REQUIRE(memory.ok());
  CHECK(budget.usage()[Domain::device].live_bytes == arenas::kPageBytes);
}

TEST_SUITE_END();

}  // namespace ompipe::device
