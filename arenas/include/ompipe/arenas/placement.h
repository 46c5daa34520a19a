// Which thread runs on which core, and on which memory node each arena lives: chosen from a topology, printable,
// applied by Topology.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ompipe/arenas/budget.h"
#include "ompipe/arenas/memory_binding.h"
#include "ompipe/arenas/topology.h"

namespace ompipe::arenas {

enum class PlacementPolicy : uint8_t {
  compact,  // compute threads on neighbouring cores, one each (the default)
  spread,   // compute threads round-robin over the memory nodes, one core each
  none,     // nothing is bound: every thread stays where the system, or OpenMP's own variables, put it
};

// What `--placement` asks for: "compact", "spread", "none", each with ",ARENA=NODE" for arenas that shall live on one
// node.
struct PlacementSpec {
  PlacementPolicy policy = PlacementPolicy::compact;
  std::array<int, kDomains.size()> arena_node = {-1, -1, -1, -1, -1, -1};  // -1: first touch

  // ErrorKind::usage for what it doesn't know. `mapped` has no node: its pages are the page cache's; nor has a device's
  // memory.
  static Result<PlacementSpec> parse(const std::string& text);
  std::string text() const;
};

// One thread's place.
struct ThreadPlace {
  std::string thread;          // "compute 0", "io 1", "coordinator"
  bool bind = false;           // false: the thread is left alone
  const Core* core = nullptr;  // compute threads that are bound; points into the placement's topology
  std::vector<int> cpus;       // where it may run
};

// A placement for one topology, of which it holds a copy.
struct Placement {
  PlacementSpec spec = {};
  Topology topology;
  std::vector<ThreadPlace> compute = {}, io = {};
  ThreadPlace coordinator = {};
  bool shares_cores = false;  // more compute threads than cores: they take turns

  // The binding to give to an arena of this domain.
  MemoryBinding binding(Domain domain) const;
  // Threads and arenas, a line each, in columns; and what is not possible here.
  std::string text() const;
};

// Compute threads get a core each, by policy, as far as there are cores that the process may use; beyond that they
// share. I/O threads and the coordinator, which mostly sleep and must run at once when woken, may run anywhere in the
// process's mask. ErrorKind::usage when an arena's node is not in the topology.
Result<Placement> place_threads(const Topology& topology, const PlacementSpec& spec, int compute_threads,
                                int io_threads);

// Binds the calling thread to its place, and reads it back; a place that is left alone counts as applied.
BindOutcome bind_current_thread(const Topology& topology, const ThreadPlace& place);

}  // namespace ompipe::arenas
