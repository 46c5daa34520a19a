// Binding threads and memory for real, on this system, and honest answers where it isn't possible.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/placement.h"
#include "ompipe/arenas/prepared_arena.h"

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

// The calling thread's mask, put back at the end.
struct MaskGuard {
  cpu_set_t saved;
  MaskGuard() { REQUIRE(sched_getaffinity(0, sizeof saved, &saved) == 0); }
  ~MaskGuard() { sched_setaffinity(0, sizeof saved, &saved); }
};

std::vector<int> current_mask() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void restrict_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

}  // namespace

TEST_SUITE("binding") {
  TEST_CASE("a compute thread lands on its core, a free one gets the whole mask back") {
    const MaskGuard guard;
    const Topology t = std::move(Topology::native()).value();
    const std::vector<int> whole = current_mask();
    CHECK(t.allowed_cpus() == whole);
    const Placement p = *place_threads(t, {}, int(t.cores().size()), 1);
    for (const ThreadPlace& place : p.compute) {
      const BindOutcome outcome = bind_current_thread(t, place);
      CHECK(outcome.applied);
      CHECK(outcome.reason == "");
      CHECK(current_mask() == place.cpus);
    }
    CHECK(bind_current_thread(t, p.io[0]).applied);
    CHECK(current_mask() == whole);
  }

  TEST_CASE("under a mask of one CPU all threads share it and nothing leaves it") {
    const MaskGuard guard;
    const int last = current_mask().back();
    restrict_to(last);
    const Topology t = std::move(Topology::native()).value();
    CHECK(t.allowed_cpus() == std::vector<int>{last});
    const Placement p = *place_threads(t, {}, 4, 2);
    CHECK(p.shares_cores);
    for (const auto* places : {&p.compute, &p.io})
      for (const ThreadPlace& place : *places) {
        CHECK(place.cpus == std::vector<int>{last});
        CHECK(bind_current_thread(t, place).applied);
        CHECK(current_mask() == std::vector<int>{last});
      }
  }

  TEST_CASE("a CPU outside the mask is refused, although the system would allow it") {
    const MaskGuard guard;
    const std::vector<int> whole = current_mask();
    if (whole.size() < 2) return;
    restrict_to(whole[0]);
    const Topology t = std::move(Topology::native()).value();
    const BindOutcome outcome = t.bind_current_thread({whole[1]});
    CHECK_FALSE(outcome.applied);
    CHECK(outcome.reason == "CPU " + std::to_string(whole[1]) + " is outside the process's mask");
    CHECK(current_mask() == std::vector<int>{whole[0]});
  }

  TEST_CASE("a topology of another system applies nothing and says so") {
    const std::vector<int> before = current_mask();
    const Topology t = std::move(Topology::from_synthetic("core:2 pu:1")).value();
    const Placement p = *place_threads(t, {}, 1, 1);
    const BindOutcome outcome = bind_current_thread(t, p.compute[0]);
    CHECK_FALSE(outcome.applied);
    CHECK(outcome.reason == "the topology is not this system");
    CHECK(current_mask() == before);
    std::byte byte{};
    CHECK_FALSE(t.bind_memory(&byte, 1, 0).applied);
    CHECK(t.memory_node_of(&byte, 1) == -1);
  }

  TEST_CASE("the placement none leaves a thread alone") {
    const MaskGuard guard;
    const std::vector<int> whole = current_mask();
    restrict_to(whole.back());
    const Topology t = std::move(Topology::native()).value();
    restrict_to(whole.front());
    const Placement p = *place_threads(t, *PlacementSpec::parse("none"), 1, 1);
    CHECK(bind_current_thread(t, p.compute[0]).applied);
    CHECK(current_mask() == std::vector<int>{whole.front()});
  }

  TEST_CASE("an arena on a node has its pages there, or says why not") {
    const Topology t = std::move(Topology::native()).value();
    const int node = t.nodes().back().node;
    Budget budget;
    const Placement p = *place_threads(t, *PlacementSpec::parse("compact,io=" + std::to_string(node)), 1, 1);
    BlockArena arena(budget, {.domain = Domain::io, .binding = p.binding(Domain::io)});
    Result<Allocation> block = arena.allocate(1 << 20, Urgency::critical, "output");
    if (!block.ok()) {
      CHECK(block.error().phase == "bind memory");
      CHECK(block.error().reason != "");
      return;
    }
    std::memset(block->data(), 1, block->bytes());
    CHECK(t.memory_node_of(block->data(), block->bytes()) == node);
  }

  TEST_CASE("prepared objects on a node have their pages there, or the arena says why not") {
    const Topology t = std::move(Topology::native()).value();
    const int node = t.nodes().back().node;
    Budget budget;
    const std::vector<uint64_t> sizes{3 << 20};
    auto arena = PreparedArena::create(budget, sizes, PreparedLayout::packed, {t, node});
    if (!arena.ok()) {
      CHECK(arena.error().phase == "bind memory");
      return;
    }
    auto reserved = budget.reserve({{Domain::prepared, sizes[0]}}, Urgency::critical);
    const Allocation object = (*arena)->commit(0, *reserved);
    std::memset(object.data(), 1, object.bytes());
    CHECK(t.memory_node_of(object.data(), object.bytes()) == node);
    CHECK_FALSE(PreparedArena::create(budget, sizes, PreparedLayout::packed, {t, 4000}).ok());
  }

  TEST_CASE("a node that does not exist is refused") {
    const Topology t = std::move(Topology::native()).value();
    std::byte byte{};
    const BindOutcome outcome = t.bind_memory(&byte, 1, 4000);
    CHECK_FALSE(outcome.applied);
    CHECK(outcome.reason != "");
  }
}
