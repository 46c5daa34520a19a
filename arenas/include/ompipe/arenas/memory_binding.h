// Which memory node an arena's pages live on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/arenas/error.h"

namespace ompipe::arenas {

class Topology;

// The default binds nothing: pages live where they are first touched.
struct MemoryBinding {
  const Topology* topology = nullptr;  // must outlive the arena
  int node = -1;                       // the operating system's number

  // Binds a fresh, page-aligned range. ErrorKind::environment if it can't be done. Any thread.
  Status apply(std::byte* base, uint64_t bytes) const;
};

}  // namespace ompipe::arenas
