// The registry: states, generations, visible bytes, and what its arena counts as live.
#include "ompipe/store/prepared_store.h"

#include <doctest/doctest.h>

#include <cstring>

#include "loader.h"
#include "ompipe/arenas/budget.h"

TEST_SUITE_BEGIN("prepared_store");

namespace {

using namespace ompipe;
using namespace ompipe::test;
using arenas::Domain;
using store::PreparedStore;
using store::Residency;

struct World {
  World() : plan(plan_of(matmul_chain(2, 48))) {
    auto created = PreparedStore::create(plan, budget, arenas::PreparedLayout::separate, {});
    REQUIRE(created.ok());
    store = std::move(*created);
  }
  ~World() {
    store.reset();
    CHECK(budget.audit() == "");
  }

  uint64_t live() const { return budget.usage()[Domain::prepared].live_bytes; }
  arenas::Reservation reserve(uint64_t bytes) {
    auto granted = budget.reserve({{Domain::prepared, bytes}}, arenas::Urgency::critical);
    REQUIRE(granted.has_value());
    return std::move(*granted);
  }
  void load(plan::ObjectId object) {
    arenas::Reservation reservation = reserve(kRounded);
    store->begin(object, reservation);
    store->first_chunk(object);
    std::memset(store->writable(object), 7 + object, kBytes);
    store->publish(object);
  }

  static constexpr uint64_t kBytes = 48 * 48 * 4, kRounded = 12288;
  arenas::Budget budget;
  PlanPointer plan;
  std::unique_ptr<PreparedStore> store;
};

TEST_CASE("begin takes an object's bytes out of its gang's reservation; publish shows them") {
  World world;
  CHECK(world.store->state(0) == Residency::absent);
  CHECK(world.store->generation(0) == 0);
  CHECK(world.live() == 0);
  {
    arenas::Reservation gang = world.reserve(2 * World::kRounded);
    world.store->begin(0, gang);
    CHECK(gang.left_bytes(Domain::prepared) == World::kRounded);
    CHECK(world.store->state(0) == Residency::loading);
    CHECK(world.store->generation(0) == 1);
    CHECK(world.store->bytes(0) == nullptr);
  }
  CHECK(world.live() == World::kRounded);
  world.store->first_chunk(0);
  CHECK(world.store->state(0) == Residency::preparing);
  CHECK(world.store->bytes(0) == nullptr);
  world.store->publish(0);
  CHECK(world.store->state(0) == Residency::resident);
  CHECK(world.store->bytes(0) == world.store->writable(0));
  CHECK(world.live() == World::kRounded);
}

TEST_CASE("an evicted object's bytes count until its allocation is gone; it comes back at its place, empty") {
  World world;
  world.load(0);
  world.load(1);
  CHECK(world.live() == 2 * World::kRounded);
  const std::byte* const place = world.store->bytes(0);
  arenas::Allocation leaving = world.store->evict(0);
  CHECK(world.store->state(0) == Residency::evicting);
  CHECK(world.store->bytes(0) == nullptr);
  CHECK(world.live() == 2 * World::kRounded);
  leaving.reset();
  world.store->gone(0);
  CHECK(world.store->state(0) == Residency::absent);
  CHECK(world.live() == World::kRounded);
  CHECK(world.store->bytes(1)[World::kBytes - 1] == std::byte(8));

  arenas::Reservation again = world.reserve(World::kRounded);
  world.store->begin(0, again);
  CHECK(world.store->generation(0) == 2);
  CHECK(world.store->writable(0) == place);
  CHECK(place[0] == std::byte(0));
  world.store->give_up(0).reset();
  world.store->gone(0);
}

TEST_CASE("an evicted object that is kept before its pages go is what it was") {
  World world;
  world.load(0);
  const std::byte* const place = world.store->bytes(0);
  world.store->keep(0, world.store->evict(0));
  CHECK(world.store->state(0) == Residency::resident);
  CHECK(world.store->generation(0) == 1);
  CHECK(world.store->bytes(0) == place);
  CHECK(world.live() == World::kRounded);
}

TEST_CASE("the form of the scales belongs to the bytes that are there") {
  using store::ScaleForm;
  World world;
  CHECK_FALSE(world.store->narrow(0));
  arenas::Reservation first = world.reserve(World::kRounded);
  world.store->begin(0, first);
  CHECK(world.store->scale_form(0) == ScaleForm::unknown);
  world.store->scale_form(0) = ScaleForm::narrow;
  world.store->first_chunk(0);
  world.store->publish(0);
  CHECK(world.store->narrow(0));
  CHECK_FALSE(world.store->narrow(1));
  world.store->keep(0, world.store->evict(0));
  CHECK(world.store->narrow(0));
  world.store->evict(0).reset();
  world.store->gone(0);
  arenas::Reservation second = world.reserve(World::kRounded);
  world.store->begin(0, second);
  CHECK(world.store->scale_form(0) == ScaleForm::unknown);
  CHECK_FALSE(world.store->narrow(0));
  world.store->give_up(0).reset();
  world.store->gone(0);
}

TEST_CASE("an abandoned or failed object gives its bytes back, and the next request is the next generation") {
  World world;
  for (const bool prepares : {false, true}) {
    for (const Residency to : {Residency::absent, Residency::failed}) {
      arenas::Reservation reservation = world.reserve(World::kRounded);
      const uint32_t generation = world.store->generation(0);
      world.store->begin(0, reservation);
      if (prepares) world.store->first_chunk(0);
      arenas::Allocation leaving = world.store->give_up(0);
      CHECK(world.live() == World::kRounded);
      leaving.reset();
      world.store->gone(0, to);
      CHECK(world.store->state(0) == to);
      CHECK(world.store->generation(0) == generation + 1);
      CHECK(world.store->bytes(0) == nullptr);
      CHECK(world.live() == 0);
    }
  }
  world.load(0);
  CHECK(world.store->generation(0) == 5);
  CHECK(world.store->bytes(0)[0] == std::byte(7));
}

TEST_CASE("a store that is destroyed gives back what is resident") {
  World world;
  world.load(1);
  CHECK(world.live() == World::kRounded);
  world.store.reset();
  CHECK(world.live() == 0);
}

}  // namespace
