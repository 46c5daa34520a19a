// Lays the weights of a generated model out in one data file and digests them on the way.
#pragma once

#include <cstdint>
#include <vector>

#include "generate_spec.h"
#include "ompipe/io/atomic_file.h"
#include "ompipe/io/digest.h"

namespace ompipe::cli {

// Weights of at least kLargeBytes begin on a page, so that they can be mapped and read directly; small ones on a cache
// line, close to each other, so that one read fetches a block's norms and biases.
inline constexpr uint64_t kLargeBytes = 64 * 1024;
inline constexpr uint64_t kLargeAlignment = 4096, kSmallAlignment = 64;

// Where a weight lies and what it holds.
struct PlacedWeight {
  uint64_t offset = 0, length = 0;  // bytes
  io::Hash128 digest;
  std::vector<io::Hash128> slices;
};

// Writes every weight in order, in blocks of 1 MiB. Returns one entry for each weight of the model; weights that share
// bytes have equal entries. Errors: environment.
Result<std::vector<PlacedWeight>> write_data(const ModelSpec& model, uint64_t seed, io::AtomicFile& file);

}  // namespace ompipe::cli
