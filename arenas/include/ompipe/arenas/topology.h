// The machine's cores and memory nodes as hwloc sees them, the part of it that this process may use, and binding to it.
//
// Traps (measured with hwloc 2.9): with a synthetic or XML topology, also one put in by HWLOC_SYNTHETIC or
// HWLOC_XMLFILE, every bind call does nothing and returns success. So a binding counts as applied only if the topology
// is this system, the support bit is set, and reading it back agrees. A memory-only node's cpuset is not empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ompipe/arenas/error.h"

namespace ompipe::arenas {

// A core with at least one CPU that the process may use. All numbers but `core` are the operating system's.
struct Core {
  int core = 0;           // hwloc's logical index: neighbours are near each other
  int package = -1;       // -1: the topology names none
  int node = -1;          // nearest memory node
  std::vector<int> cpus;  // allowed ones, ascending
};

struct MemoryNode {
  int node = 0;
  uint64_t bytes = 0;
  bool has_cpus = false;  // false: memory only (HBM, CXL)
};

// What a bind call came to. Not being possible is an answer, not an error: callers report it and go on.
struct BindOutcome {
  bool applied = false;
  std::string reason;  // why not, or empty
};

// Immutable after loading, so it may be used from any thread; copies share hwloc's topology, which lives as long as one
// of them (1.4 ms to load; I/O devices, which take 12 ms more, are not loaded).
class Topology {
 public:
  // This machine. The mask of the calling thread at this moment is what the process may use: load it before anything
  // binds.
  static Result<Topology> native();
  // An XML file as lstopo writes it; a synthetic description ("package:2 core:4 pu:2"). All CPUs count as allowed.
  static Result<Topology> from_xml(const std::string& path);
  static Result<Topology> from_synthetic(const std::string& description);

  bool is_this_system() const;
  const std::string& source() const;             // "this system", "xml FILE", "synthetic S"
  const std::vector<Core>& cores() const;        // in logical order; never empty
  const std::vector<MemoryNode>& nodes() const;  // in logical order
  const std::vector<int>& allowed_cpus() const;  // ascending

  // Binds the calling thread to `cpus`, which must be allowed ones, and reads it back.
  BindOutcome bind_current_thread(const std::vector<int>& cpus) const;
  // Binds a page-aligned range, strictly, to the node; pages already there are moved. For a range not yet touched that
  // is a rule for its first touch, and read back as such. Strict: a full node means the OOM killer, so look at its free
  // memory first.
  BindOutcome bind_memory(std::byte* base, size_t bytes, int node) const;
  // Which node the touched pages of a range lie on; -1: none touched, several, or not this system.
  int memory_node_of(const std::byte* base, size_t bytes) const;

 private:
  struct Impl;
  explicit Topology(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace ompipe::arenas
