// The states of a prepared object, and the one function that changes them.
#pragma once

#include <cstdint>

namespace ompipe::store {

enum class Residency : uint8_t {
  absent,     // no bytes, nothing in flight
  loading,    // admitted: bytes reserved, reads submitted
  preparing,  // its first chunk is being packed
  resident,   // published: whole, checked, visible
  evicting,   // chosen and unpinned; its bytes are being given back
  failed,     // read, digest or prepack failed; a later request starts the next generation
};

const char* residency_name(Residency state);

// Sets `state` to `to`. The old state must be one from which the table in design_residency.md, "States", leads there.
void transition(Residency& state, Residency to);

}  // namespace ompipe::store
