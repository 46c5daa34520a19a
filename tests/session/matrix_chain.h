// Chains of float matrices, four to a segment, and the gates of a device that holds their reads back.
#pragma once

#include "../model/onnx_builder.h"
#include "ompipe/io/gated_device.h"
#include "rig.h"

namespace ompipe::session::testing {

// All reads of an object, and the file that one of them reads from.
std::vector<plan::Read> reads_of(const plan::PreparedObject& object);
const io::FileHandle& file_of(const RuntimeSession& session, const plan::Read& read);
// Opens the gates of the object's reads.
void open(io::GatedDevice& device, const RuntimeSession& session, plan::ObjectId id);

// `count` float32 matrices of side x side in a row, no two of them alike; returns the model's path in the folder. Above
// 64 KiB every weight is a large object, so four of them make a segment.
std::string matrix_chain(const test::TempFolder& folder, int count, int64_t side);

// An input of ones and halves for it.
exec::NamedTensor vector_input(const std::string& name, int64_t side);

// After it everything that was posted before has been served, and the gates that it opens are open.
void settle(Runtime& runtime);

}  // namespace ompipe::session::testing
