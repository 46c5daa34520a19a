// How the float32 scales of a packed weight lie in its prepared bytes, which is decided when they have arrived.
#pragma once

#include <atomic>
#include <cstdint>

namespace ompipe::store {

enum class ScaleForm : uint8_t {
  unknown,  // nobody has looked at them
  wide,     // as they are: PreparedObject::layout
  narrow,   // as float16, which each of them is: PreparedObject::narrow
};

// One for each object. Chunks that are packed at once may each decide, and decide alike.
using SharedScaleForm = std::atomic<ScaleForm>;

}  // namespace ompipe::store
