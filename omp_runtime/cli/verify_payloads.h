// Checks the digest of every payload of a model that states one, through the I/O service.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/io/device.h"
#include "ompipe/model/reader.h"

namespace ompipe::cli {

enum class Verdict : uint8_t { right, wrong, unknown };  // unknown: the model states no digest

struct Checked {
  std::string name;  // of the tensor, or of the file
  std::string file;
  uint64_t offset = 0, length = 0;
  std::string expected, found;
  Verdict verdict = Verdict::unknown;
};

// One entry for each payload, in the model's order, then one for each file with a SHA-1. Reads 1 MiB at a time, four
// reads in flight at most. Errors: those of reading, and environment when the system refuses I/O threads; what is wrong
// is a verdict, not an error.
Result<std::vector<Checked>> verify_payloads(const model::ModelGraph& graph, io::Device& device);

}  // namespace ompipe::cli
