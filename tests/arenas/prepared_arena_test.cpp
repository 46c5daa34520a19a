// The prepared arena: fixed ranges, zeros after an eviction, what huge pages add, and both layouts at a tight limit.
#include "ompipe/arenas/prepared_arena.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kHuge = 2 * kMiB;

struct Fixture {
  Budget budget;
  std::unique_ptr<PreparedArena> arena;
  ~Fixture() { CHECK(budget.audit() == ""); }

  void create(const std::vector<uint64_t>& sizes, PreparedLayout layout) {
    auto created = PreparedArena::create(budget, sizes, layout);
    REQUIRE(created.ok());
    arena = std::move(created).value();
  }
  Allocation commit(size_t object, uint64_t bytes) {
    auto reserved = budget.reserve({{Domain::prepared, PreparedArena::rounded_bytes(bytes)}}, Urgency::critical);
    REQUIRE(reserved);
    return arena->commit(object, *reserved);
  }
  DomainUsage usage() { return budget.usage()[Domain::prepared]; }
};

bool all_are(const Allocation& block, std::byte value) {
  for (uint64_t i = 0; i < block.bytes(); i++)
    if (block.data()[i] != value) return false;
  return true;
}

void fill(const Allocation& block, int value) { std::memset(block.data(), value, block.bytes()); }

// Pages of the range that have memory.
size_t resident_pages(const std::byte* data, uint64_t bytes) {
  std::vector<unsigned char> pages(bytes / kPageBytes);
  REQUIRE(mincore(const_cast<std::byte*>(data), bytes, pages.data()) == 0);
  size_t count = 0;
  for (unsigned char page : pages) count += page & 1;
  return count;
}

}  // namespace

TEST_SUITE("prepared_arena") {
  TEST_CASE_FIXTURE(Fixture, "an object has the same range every time and reads as zeros again after an eviction") {
    for (PreparedLayout layout : {PreparedLayout::packed, PreparedLayout::separate}) {
      create({5000, 3 * kMiB, 100, 600 * kKiB}, layout);
      Allocation a = commit(1, 3 * kMiB), b = commit(3, 600 * kKiB);
      std::byte* data = a.data();
      CHECK(a.bytes() == 3 * kMiB);
      CHECK(a.domain() == Domain::prepared);
      CHECK(all_are(a, std::byte{0}));
      fill(a, 7);
      fill(b, 8);
      a.reset();
      CHECK(resident_pages(data, 3 * kMiB) == 0);
      CHECK(all_are(b, std::byte{8}));
      a = commit(1, 3 * kMiB);
      CHECK(a.data() == data);
      CHECK(all_are(a, std::byte{0}));
      CHECK(usage().live_bytes == 3 * kMiB + 600 * kKiB);
      a.reset();
      b.reset();
      CHECK(usage().retained_bytes == 0);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "live bytes are sizes rounded to 4 KiB") {
    create({1, 4096, 4097, 0}, PreparedLayout::separate);
    Allocation a = commit(0, 1), b = commit(1, 4096), c = commit(2, 4097), d = commit(3, 0);
    CHECK(usage().live_bytes == 5 * kPageBytes);
    CHECK(usage().retained_bytes == 0);
    CHECK(d.bytes() == kPageBytes);
  }

  TEST_CASE_FIXTURE(Fixture, "separate: objects of 2 MiB and more start on a huge page, the others do not take one") {
    create({4096, 2 * kMiB, 4096, 3 * kMiB}, PreparedLayout::separate);
    Allocation small = commit(0, 4096), big = commit(1, 2 * kMiB), third = commit(2, 4096),
               fourth = commit(3, 3 * kMiB);
    CHECK(uintptr_t(big.data()) % kHuge == 0);
    CHECK(uintptr_t(fourth.data()) % kHuge == 0);
    CHECK(third.data() == big.data() + 2 * kMiB);
    fill(third, 1);
    CHECK(resident_pages(third.data(), kMiB) == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "packed: what a huge page adds is retained until the objects in it are live") {
    create({kMiB, 512 * kKiB, 512 * kKiB, kMiB}, PreparedLayout::packed);
    Allocation a = commit(0, kMiB);
    CHECK(usage().live_bytes == kMiB);
    CHECK(usage().retained_bytes == kMiB);
    Allocation b = commit(1, 512 * kKiB);
    CHECK(usage().retained_bytes == 512 * kKiB);
    Allocation c = commit(2, 512 * kKiB);
    CHECK(usage().retained_bytes == 0);
    Allocation d = commit(3, kMiB);
    CHECK(usage().retained_bytes == kMiB);
    CHECK(budget.usage().global_bytes == 4 * kMiB);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "packed: an eviction inside a huge page gives its own and the unused bytes back, no others") {
    create({kMiB, 512 * kKiB, 512 * kKiB}, PreparedLayout::packed);
    Allocation a = commit(0, kMiB), b = commit(1, 512 * kKiB);
    std::byte* base = a.data();
    fill(a, 1);
    fill(b, 2);
    a.reset();
    CHECK(usage().live_bytes == 512 * kKiB);
    CHECK(usage().retained_bytes == 0);
    CHECK(resident_pages(base, kMiB) == 0);
    CHECK(resident_pages(base + kMiB + 512 * kKiB, 512 * kKiB) == 0);
    CHECK(all_are(b, std::byte{2}));
    a = commit(0, kMiB);
    CHECK(usage().retained_bytes == 0);  // 4 KiB pages now, until the whole page has been free
    CHECK(all_are(a, std::byte{0}));
    a.reset();
    b.reset();
    Allocation c = commit(2, 512 * kKiB);
    CHECK(usage().retained_bytes == 2 * kMiB - 512 * kKiB);
  }

  TEST_CASE_FIXTURE(Fixture, "packed: trimming keeps what is live") {
    create({kMiB, 3 * kMiB, kMiB}, PreparedLayout::packed);
    Allocation a = commit(0, kMiB), c = commit(2, kMiB);
    fill(a, 1);
    fill(c, 3);
    CHECK(usage().retained_bytes == 2 * kMiB);
    budget.trim();
    CHECK(usage().retained_bytes == 0);
    CHECK(all_are(a, std::byte{1}));
    CHECK(all_are(c, std::byte{3}));
    Allocation b = commit(1, 3 * kMiB);
    CHECK(all_are(b, std::byte{0}));
    CHECK(usage().retained_bytes == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "packed: huge pages give way to reservations at the global limit") {
    budget.set_limits({.global_bytes = 2 * kMiB + 8 * kKiB});
    create({kMiB, kMiB, 4 * kKiB, 4 * kKiB}, PreparedLayout::packed);
    Allocation a = commit(0, kMiB);
    fill(a, 1);
    Allocation c = commit(2, 4 * kKiB);  // its huge page doesn't fit
    CHECK(budget.usage().global_bytes == 2 * kMiB + 4 * kKiB);
    auto rest = budget.reserve({{Domain::io, kMiB}}, Urgency::critical);
    REQUIRE(rest);
    CHECK(usage().retained_bytes == 0);
    CHECK(all_are(a, std::byte{1}));
    CHECK(budget.usage().global_peak_bytes <= 2 * kMiB + 8 * kKiB);
    rest.reset();
    Allocation b = commit(1, kMiB), d = commit(3, 4 * kKiB);
    CHECK(budget.usage().global_bytes == 2 * kMiB + 8 * kKiB);
    CHECK_FALSE(budget.reserve({{Domain::io, 1}}, Urgency::critical));
  }

  TEST_CASE_FIXTURE(Fixture, "a plan without objects, and two sessions beside each other") {
    create({}, PreparedLayout::packed);
    auto second = PreparedArena::create(budget, std::vector<uint64_t>{kMiB}, PreparedLayout::packed);
    auto reserved = budget.reserve({{Domain::prepared, kMiB}}, Urgency::critical);
    Allocation object = (*second)->commit(0, *reserved);
    CHECK(usage().live_bytes == kMiB);
  }
}
