// Writes the synthetic models that tests, experiments and a first try run on (`ompipe generate`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"

namespace ompipe::cli {

struct GenerateOptions {
  std::string preset;     // one of preset_names()
  std::string directory;  // made if it is missing
  uint64_t seed = 1;      // same preset, seed and accuracy level: same bytes
  int accuracy_level =
      4;  // MatMulNBits' attribute: 0 (float32) or 4 (int8 blocks); presets without such nodes ignore it
};

// The presets of contract.md, in its order.
const std::vector<std::string>& preset_names();

// Writes model.data, model.digests and model.onnx into the directory. Every file is complete before it gets its name,
// and a failure removes what was written. Memory stays within a few MiB whatever the model's size: weights are made and
// hashed 1 MiB at a time. Calls for different directories may run at once. Errors: usage for an unknown preset or
// accuracy level, environment for whatever the file system refuses.
Status generate_model(const GenerateOptions& options);

}  // namespace ompipe::cli
