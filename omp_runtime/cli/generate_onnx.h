// Turns a generated model's description into the bytes of model.onnx.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "generate_data.h"
#include "generate_spec.h"

namespace ompipe::cli {

// Serialises the model as an ONNX ModelProto (ir_version 8, opset 17 and com.microsoft 1) whose weights lie in the file
// `location` beside it, as `placed` says, one entry a weight, with their digests under the key `checksum`. Every field
// is written in one fixed order. `metadata` becomes metadata_props. Pure.
std::string onnx_bytes(const ModelSpec& model, const std::vector<PlacedWeight>& placed, const std::string& location,
                       const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace ompipe::cli
