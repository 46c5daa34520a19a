// Which memory node an arena's pages live on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ompipe/arenas/topology.h"

namespace ompipe::arenas {

// The default binds nothing: pages live where they are first touched.
struct MemoryBinding {
  std::optional<Topology> topology = {};
  int node = -1;  // the operating system's number

  // Binds a fresh, page-aligned range. ErrorKind::environment if it can't be done. Any thread.
  Status apply(std::byte* base, uint64_t bytes) const;
};

}  // namespace ompipe::arenas
