// Topologies from synthetic descriptions, files and this system: cores, nodes, errors.
#include "ompipe/arenas/topology.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

Topology synthetic(const std::string& description) {
  Result<Topology> topology = Topology::from_synthetic(description);
  REQUIRE(topology.ok());
  return std::move(topology).value();
}

// A file that is gone when the test ends.
struct TemporaryFile {
  std::string path = "/tmp/ompipe_topology_XXXXXX";
  explicit TemporaryFile(const std::string& content) {
    const int fd = mkstemp(path.data());
    REQUIRE(fd >= 0);
    close(fd);
    std::ofstream(path) << content;
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
};

}  // namespace

TEST_SUITE("topology") {
  TEST_CASE("two sockets with two threads a core") {
    const Topology t = synthetic("package:2 [numa(memory=1GB)] core:4 pu:2");
    CHECK_FALSE(t.is_this_system());
    REQUIRE(t.cores().size() == 8);
    REQUIRE(t.nodes().size() == 2);
    CHECK(t.allowed_cpus().size() == 16);
    CHECK(t.cores()[0].cpus == std::vector<int>{0, 1});
    CHECK(t.cores()[3].package == 0);
    CHECK(t.cores()[4].package == 1);
    CHECK(t.cores()[4].node == 1);
    CHECK(t.nodes()[1].bytes == 1'000'000'000);
    CHECK(t.nodes()[1].has_cpus);
  }

  TEST_CASE("a second node with the same CPUs is memory only, and no core's nearest") {
    const Topology t = synthetic("package:2 [numa(memory=1GB)] [numa(memory=2GB)] core:2 pu:1");
    REQUIRE(t.nodes().size() == 4);
    CHECK(t.nodes()[0].has_cpus);
    CHECK_FALSE(t.nodes()[1].has_cpus);
    CHECK(t.nodes()[2].has_cpus);
    CHECK_FALSE(t.nodes()[3].has_cpus);
    CHECK(t.cores()[0].node == t.nodes()[0].node);
    CHECK(t.cores()[2].node == t.nodes()[2].node);
  }

  TEST_CASE("PUs without cores or packages are cores of their own") {
    const Topology t = synthetic("pu:3");
    REQUIRE(t.cores().size() == 3);
    CHECK(t.cores()[2].cpus == std::vector<int>{2});
    CHECK(t.cores()[2].package == -1);
  }

  TEST_CASE("a bad synthetic description is a usage error that names it") {
    for (const char* bad : {"package:2 nonsense:3", "", "core:", "pu:2 core:2"}) {
      const Result<Topology> t = Topology::from_synthetic(bad);
      REQUIRE_FALSE(t.ok());
      CHECK(t.error().kind == ErrorKind::usage);
      CHECK(t.error().subject == bad);
    }
  }

  TEST_CASE("an absent, empty or damaged XML file is an error, never the native topology") {
    const Result<Topology> absent = Topology::from_xml("/nonexistent/topology.xml");
    REQUIRE_FALSE(absent.ok());
    CHECK(absent.error().kind == ErrorKind::environment);
    CHECK_FALSE(Topology::from_xml("/").ok());
    CHECK_FALSE(Topology::from_xml(TemporaryFile("").path).ok());
    const TemporaryFile damaged("<?xml version=\"1.0\"?><topology><object type=\"Machine\">");
    CHECK_FALSE(Topology::from_xml(damaged.path).ok());
    const TemporaryFile other("hello\n");
    CHECK_FALSE(Topology::from_xml(other.path).ok());
  }

  TEST_CASE("an XML file is another system, with its own cores") {
    const TemporaryFile file(R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3"
   nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1"
   complete_nodeset="0x1" gp_index="2" local_memory="4096"/>
  <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1"
    nodeset="0x1" complete_nodeset="0x1" gp_index="3">
   <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1"
    nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
  </object>
  <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2"
    nodeset="0x1" complete_nodeset="0x1" gp_index="5">
   <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2"
    nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
  </object>
 </object>
</topology>
)");
    const Result<Topology> t = Topology::from_xml(file.path);
    REQUIRE(t.ok());
    CHECK_FALSE(t->is_this_system());
    CHECK(t->source() == "xml " + file.path);
    CHECK(t->cores().size() == 2);
    CHECK(t->nodes()[0].bytes == 4096);
  }

  TEST_CASE("a topology that the environment puts in place of this system's is not passed off as it") {
    setenv("HWLOC_SYNTHETIC", "core:3 pu:1", 1);
    const Result<Topology> t = Topology::native();
    unsetenv("HWLOC_SYNTHETIC");
    REQUIRE(t.ok());
    CHECK_FALSE(t->is_this_system());
    CHECK(t->source() == "another system (HWLOC_* in the environment)");
    CHECK(t->cores().size() == 3);
    CHECK_FALSE(t->bind_current_thread({0}).applied);
  }

  TEST_CASE("this system: every allowed CPU belongs to one core, every core to a node that exists") {
    const Result<Topology> t = Topology::native();
    REQUIRE(t.ok());
    CHECK(t->is_this_system());
    std::vector<int> cpus;
    for (const Core& core : t->cores()) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    std::sort(cpus.begin(), cpus.end());
    CHECK(cpus == t->allowed_cpus());
    REQUIRE_FALSE(t->nodes().empty());
    CHECK(t->nodes()[0].has_cpus);
    CHECK(t->nodes()[0].bytes > 0);
  }
}
