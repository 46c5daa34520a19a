// Prepares objects from a model's files chunk by chunk, in any order, outside of any session.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "ompipe/store/prepare_chunk.h"
#include "plans.h"

namespace ompipe::test {

// Bytes aligned as a kernel wants its packed operand.
std::shared_ptr<std::byte> aligned_bytes(uint64_t bytes);

// The bytes of `reads`, laid out at their staging offsets from `to` on.
void read_into(const plan::PreparedExecutionPlan& plan, const std::vector<plan::Read>& reads, std::byte* to);

struct Prepared {
  std::shared_ptr<std::byte> bytes;
  store::SliceHashes hashes;
  Status status = ok_status();  // of the first chunk that failed
  store::ScaleForm scale_form = store::ScaleForm::unknown;
};

// `order`: chunk indices; every chunk once, unless a test wants otherwise.
Prepared prepare_object(const plan::PreparedExecutionPlan& plan, plan::ObjectId object,
                        const std::vector<size_t>& order);
Prepared prepare_object(const plan::PreparedExecutionPlan& plan, plan::ObjectId object);  // in order

// `bytes` bytes that look like noise and depend on `seed` only.
std::string noise(size_t bytes, uint64_t seed);

}  // namespace ompipe::test
