// A chain of float32 matrices as a model: as small or as large as a test wants, with nothing but weights in it.
#pragma once

#include <string>

#include "../model/onnx_builder.h"
#include "rig.h"

namespace ompipe::session::testing {

// `count` matrices of side x side in a row, no two of them alike; returns the model's path in the folder. Above 64 KiB
// every weight is a large object, so four of them make a segment.
std::string matrix_chain(const test::TempFolder& folder, int count, int64_t side);

// An input of ones and halves for it.
exec::NamedTensor vector_input(const std::string& name, int64_t side);

}  // namespace ompipe::session::testing
