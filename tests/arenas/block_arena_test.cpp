// Block arenas: rounding, handles, the pool, and that pooled bytes never stand in the way of a reservation.
#include "ompipe/arenas/block_arena.h"

#include <doctest/doctest.h>

#include <cstring>

#include "ompipe/arenas/topology.h"

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

struct Fixture {
  Budget budget;
  BlockArena arena{budget, {.domain = Domain::preparation}};
  ~Fixture() { CHECK(budget.audit() == ""); }

  DomainUsage usage() { return budget.usage()[Domain::preparation]; }
  Allocation get(uint64_t bytes) {
    Result<Allocation> allocated = arena.allocate(bytes, Urgency::critical, "test");
    REQUIRE(allocated.ok());
    return std::move(allocated).value();
  }
};

}  // namespace

TEST_SUITE("block_arena") {
  TEST_CASE("rounding is idempotent, page-wise, and wastes an eighth at most") {
    for (uint64_t bytes = 1; bytes < 64 * kMiB; bytes += bytes / 7 + 1) {
      const uint64_t rounded = BlockArena::rounded_bytes(bytes);
      CHECK(rounded >= bytes);
      CHECK(rounded % kPageBytes == 0);
      CHECK(BlockArena::rounded_bytes(rounded) == rounded);
      CHECK(rounded - bytes < std::max<uint64_t>(kPageBytes, bytes / 8 + 1));
    }
    for (uint64_t mib = 1; mib <= 16; mib++) CHECK(BlockArena::rounded_bytes(mib * kMiB) == mib * kMiB);
    CHECK(BlockArena::rounded_bytes(0) == kPageBytes);
    CHECK(BlockArena::rounded_bytes(UINT64_MAX) == UINT64_MAX);
  }

  TEST_CASE_FIXTURE(Fixture, "blocks are aligned, writable to their last byte and apart") {
    std::vector<Allocation> held;
    for (uint64_t bytes : {1ull, 4097ull, 100'000ull, 1'000'000ull, 2'097'152ull, 5'000'000ull}) {
      held.push_back(get(bytes));
      const Allocation& block = held.back();
      CHECK(block.bytes() == BlockArena::rounded_bytes(bytes));
      CHECK(uintptr_t(block.data()) % (bytes >= 2 * kMiB ? 2 * kMiB : 4096) == 0);
      std::memset(block.data(), int(held.size()), block.bytes());
    }
    for (size_t i = 0; i < held.size(); i++) {
      CHECK(held[i].data()[0] == std::byte(i + 1));
      CHECK(held[i].data()[held[i].bytes() - 1] == std::byte(i + 1));
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a handle moves, and returns its bytes once") {
    Allocation a = get(8 * kKiB);
    std::byte* data = a.data();
    Allocation b = std::move(a);
    CHECK_FALSE(a);
    a.reset();
    CHECK(b.data() == data);
    CHECK(usage().live_bytes == 8 * kKiB);
    b = get(4 * kKiB);  // what it held before goes back
    CHECK(usage().live_bytes == 4 * kKiB);
    CHECK(usage().retained_bytes == 8 * kKiB);
    b.reset();
    b.reset();
    CHECK(usage().live_bytes == 0);
    CHECK(usage().retained_bytes == 12 * kKiB);
  }

  TEST_CASE_FIXTURE(Fixture, "a pooled block is found again, the newest first") {
    Allocation a = get(kMiB), b = get(kMiB);
    std::byte *first = a.data(), *second = b.data();
    a.reset();
    b.reset();
    CHECK(usage().retained_bytes == 2 * kMiB);
    Allocation c = get(kMiB - 5);
    CHECK(c.data() == second);
    CHECK(usage().retained_bytes == kMiB);
    Allocation d = get(kMiB);
    CHECK(d.data() == first);
    CHECK(usage().peak_bytes == 2 * kMiB);
    CHECK(budget.usage().global_peak_bytes == 2 * kMiB);
  }

  TEST_CASE_FIXTURE(Fixture, "the cap bounds the pool, oldest out first, and can change") {
    arena.set_retention_cap(3 * kMiB);
    Allocation a = get(kMiB), b = get(2 * kMiB), c = get(kMiB), d = get(4 * kMiB);
    std::byte *b_data = b.data(), *c_data = c.data();
    a.reset();
    b.reset();
    c.reset();
    CHECK(usage().retained_bytes == 3 * kMiB);
    d.reset();  // larger than the cap: straight back
    CHECK(usage().retained_bytes == 3 * kMiB);
    CHECK(get(2 * kMiB).data() == b_data);
    CHECK(get(kMiB).data() == c_data);
    arena.set_retention_cap(kMiB);
    CHECK(usage().retained_bytes == kMiB);
    arena.set_retention_cap(0);
    CHECK(usage().retained_bytes == 0);
    get(kMiB).reset();
    CHECK(usage().retained_bytes == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "trim gives everything pooled back, from the arena and from the budget") {
    get(kMiB).reset();
    arena.trim();
    CHECK(usage().retained_bytes == 0);
    Allocation live = get(kMiB);
    get(3 * kMiB).reset();
    budget.trim();
    CHECK(usage().retained_bytes == 0);
    CHECK(usage().live_bytes == kMiB);
  }

  TEST_CASE_FIXTURE(Fixture, "trimming to a number gives back no more blocks than it takes, and nothing that is live") {
    const Allocation live = get(kMiB);
    std::vector<Allocation> held;
    for (int i = 0; i < 4; i++) held.push_back(get(kMiB));
    held.clear();
    REQUIRE(budget.usage().global_bytes == 5 * kMiB);
    budget.trim_to(5 * kMiB);
    CHECK(budget.usage().global_bytes == 5 * kMiB);
    budget.trim_to(3 * kMiB);
    CHECK(budget.usage().global_bytes == 3 * kMiB);
    budget.trim_to(0);
    CHECK(budget.usage().global_bytes == kMiB);
    CHECK(usage().live_bytes == kMiB);
  }

  TEST_CASE_FIXTURE(Fixture, "many small blocks keep the pool bounded") {
    std::vector<Allocation> held;
    for (int i = 0; i < 300; i++) held.push_back(get(1));
    held.clear();
    CHECK(usage().retained_bytes == 256 * kPageBytes);
  }

  TEST_CASE_FIXTURE(Fixture, "allocations draw from a reservation that was made before") {
    auto gang = budget.reserve({{Domain::preparation, 3 * kMiB}, {Domain::io, kMiB}}, Urgency::critical);
    budget.set_limits({.global_bytes = kMiB});  // what is reserved stays granted
    {
      Allocation a = *arena.allocate(*gang, kMiB), b = *arena.allocate(*gang, 2 * kMiB);
      CHECK(gang->left_bytes(Domain::preparation) == 0);
      CHECK(usage().live_bytes == 3 * kMiB);
      gang.reset();
      CHECK(usage().live_bytes == 3 * kMiB);
      CHECK(budget.usage()[Domain::io].live_bytes == 0);
    }
    CHECK(usage().retained_bytes <= kMiB);
  }

  TEST_CASE_FIXTURE(Fixture, "pooled bytes are trimmed before a reservation is refused") {
    BlockArena execution(budget, {.domain = Domain::execution});
    budget.set_limits({.global_bytes = 10 * kMiB});
    get(4 * kMiB).reset();
    Result<Allocation>(execution.allocate(4 * kMiB, Urgency::critical, "frame"))->reset();
    CHECK(budget.usage().global_bytes == 8 * kMiB);
    auto all = budget.reserve({{Domain::io, 10 * kMiB}}, Urgency::critical);
    REQUIRE(all);
    CHECK(budget.usage().global_bytes == 10 * kMiB);
    CHECK(budget.usage().global_peak_bytes == 10 * kMiB);
    CHECK(budget.usage()[Domain::execution].retained_bytes == 0);
    CHECK_FALSE(arena.allocate(1, Urgency::critical, "chunk").ok());
  }

  TEST_CASE_FIXTURE(Fixture, "bytes pooled in a domain count once with what is reserved there, and are reused") {
    budget.set_limits({.global_bytes = 4 * kMiB});
    Allocation block = get(4 * kMiB);
    std::byte* data = block.data();
    block.reset();
    auto reserved = budget.reserve({{Domain::preparation, 4 * kMiB}}, Urgency::critical);
    REQUIRE(reserved);
    CHECK(usage().live_bytes == 4 * kMiB);
    CHECK(usage().retained_bytes == 0);
    Allocation again = *arena.allocate(*reserved, 4 * kMiB);
    CHECK(again.data() == data);
  }

  TEST_CASE_FIXTURE(Fixture, "a fresh block pushes pooled ones of another size out at the limit") {
    budget.set_limits({.global_bytes = 4 * kMiB});
    get(4 * kMiB).reset();
    auto reserved = budget.reserve({{Domain::preparation, 4 * kMiB}}, Urgency::critical);
    Allocation a = *arena.allocate(*reserved, 3 * kMiB), b = *arena.allocate(*reserved, kMiB);
    CHECK(usage().retained_bytes == 0);
    CHECK(budget.usage().global_bytes == 4 * kMiB);
    CHECK(budget.usage().global_peak_bytes == 4 * kMiB);
  }

  TEST_CASE_FIXTURE(Fixture, "nothing is pooled above a lowered global limit") {
    Allocation block = get(4 * kMiB), other = get(kMiB);
    budget.set_limits({.global_bytes = 3 * kMiB});
    block.reset();
    CHECK(usage().retained_bytes == 0);
    CHECK(usage().live_bytes == kMiB);
  }

  TEST_CASE_FIXTURE(Fixture, "what the system has no room for leaves the ledger as it was") {
    const uint64_t absurd = uint64_t{1} << 52;
    auto reserved = budget.reserve({{Domain::preparation, absurd}}, Urgency::critical);
    REQUIRE(reserved);
    const Result<Allocation> refused = arena.allocate(*reserved, absurd);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::environment);
    CHECK(reserved->left_bytes(Domain::preparation) == absurd);
  }

  TEST_CASE_FIXTURE(Fixture, "a binding that can't be applied is an error, not a silent default") {
    const Result<Topology> foreign = Topology::from_synthetic("package:2 core:2 pu:1");
    BlockArena bound(budget, {.domain = Domain::io, .binding = {*foreign, 0}});
    const Result<Allocation> refused = bound.allocate(kMiB, Urgency::critical, "logits");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message() == "bind memory: node 0: the topology is not this system");
  }
}
