// Placement: the cores that compute threads get, by policy, and how it reads.
#include "ompipe/arenas/placement.h"

#include <doctest/doctest.h>

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

Topology synthetic(const std::string& description) { return std::move(Topology::from_synthetic(description)).value(); }

PlacementSpec spec(const std::string& text) {
  Result<PlacementSpec> parsed = PlacementSpec::parse(text);
  REQUIRE(parsed.ok());
  return *parsed;
}

std::vector<int> cores_of(const Placement& placement) {
  std::vector<int> cores;
  for (const ThreadPlace& place : placement.compute) cores.push_back(place.core ? place.core->core : -1);
  return cores;
}

}  // namespace

TEST_SUITE("placement") {
  TEST_CASE("compact takes neighbours, spread alternates between the nodes, none binds nothing") {
    const Topology t = synthetic("package:2 [numa] core:4 pu:2");
    CHECK(cores_of(*place_threads(t, spec("compact"), 5, 2)) == std::vector<int>{0, 1, 2, 3, 4});
    CHECK(cores_of(*place_threads(t, spec("spread"), 5, 2)) == std::vector<int>{0, 4, 1, 5, 2});
    const Placement none = *place_threads(t, spec("none"), 2, 1);
    CHECK(cores_of(none) == std::vector<int>{-1, -1});
    CHECK_FALSE(none.compute[0].bind);
    CHECK_FALSE(none.coordinator.bind);
  }

  TEST_CASE("a compute thread may use all CPUs of its core, I/O threads and coordinator the whole mask") {
    const Topology t = synthetic("package:2 [numa] core:2 pu:2");
    const Placement p = *place_threads(t, spec("compact"), 4, 2);
    CHECK(p.compute[1].cpus == std::vector<int>{2, 3});
    CHECK(p.io.size() == 2);
    CHECK(p.io[1].thread == "io 1");
    CHECK(p.io[1].cpus == t.allowed_cpus());
    CHECK(p.coordinator.cpus == t.allowed_cpus());
    CHECK_FALSE(p.shares_cores);
  }

  TEST_CASE("more threads than cores share them in turn") {
    const Topology t = synthetic("core:2 pu:1");
    const Placement p = *place_threads(t, spec("compact"), 5, 0);
    CHECK(cores_of(p) == std::vector<int>{0, 1, 0, 1, 0});
    CHECK(p.shares_cores);
  }

  TEST_CASE("spread over packages of unequal size still gives each core once") {
    const Topology t = synthetic("package:3 [numa] core:2 pu:1");
    CHECK(cores_of(*place_threads(t, spec("spread"), 6, 0)) == std::vector<int>{0, 2, 4, 1, 3, 5});
  }

  TEST_CASE("specifications parse, print as they were and refuse the unknown") {
    for (const char* text : {"compact", "spread", "none", "compact,preparation=0,prepared=1", "none,execution=3,io=0"})
      CHECK(spec(text).text() == text);
    for (const char* bad :
         {"", "scatter", "Compact", "compact,", "compact,prepared", "compact,prepared=", "compact,prepared=x",
          "compact,prepared=-1", "compact,prepared=1x", "compact,mapped=0", "compact,weights=0"}) {
      CAPTURE(bad);
      const Result<PlacementSpec> parsed = PlacementSpec::parse(bad);
      REQUIRE_FALSE(parsed.ok());
      CHECK(parsed.error().kind == ErrorKind::usage);
    }
  }

  TEST_CASE("an arena's node must exist; the arena's binding names it") {
    const Topology t = synthetic("package:2 [numa] core:1 pu:1");
    const Placement p = *place_threads(t, spec("compact,prepared=1"), 1, 1);
    CHECK(p.binding(Domain::prepared).topology->source() == t.source());
    CHECK(p.binding(Domain::prepared).node == 1);
    CHECK_FALSE(p.binding(Domain::io).topology);
    const Result<Placement> absent = place_threads(t, spec("compact,prepared=2"), 1, 1);
    REQUIRE_FALSE(absent.ok());
    CHECK(absent.error().message() == "placement: compact,prepared=2: there is no memory node 2");
  }

  TEST_CASE("the table names every thread, arena and node, and what can't be applied") {
    const Topology t = synthetic("package:2 [numa(memory=1GB)] core:1 pu:2");
    CHECK(place_threads(t, spec("spread,prepared=1"), 3, 1)->text() ==
          "placement spread,prepared=1 on synthetic package:2 [numa(memory=1GB)] core:1 pu:2: 2 cores, CPUs 0-3\n"
          "thread        binding     package  core  node  CPUs\n"
          "compute 0     bound       0        0     0     0-1\n"
          "compute 1     bound       1        1     1     2-3\n"
          "compute 2     bound       0        0     0     0-1\n"
          "io 0          bound       any      any   any   0-3\n"
          "coordinator   bound       any      any   any   0-3\n"
          "arena         memory node\n"
          "preparation   first touch\n"
          "prepared      1\n"
          "mapped        page cache\n"
          "execution     first touch\n"
          "io            first touch\n"
          "node          bytes           CPUs\n"
          "0             1000000000      yes\n"
          "1             1000000000      yes\n"
          "compute threads outnumber the cores and share them\n"
          "not this system: nothing of it can be applied here\n");
  }
}
