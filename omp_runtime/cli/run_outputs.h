// What becomes of a run's outputs: a digest of them all, and a .npy file each.
#pragma once

#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/exec/context.h"

namespace ompipe::cli {

// The digest of all outputs' elements, one after the other.
std::string output_digest(const std::vector<exec::NamedTensor>& outputs);

// A file name for each output: characters other than letters, digits, '.', '_' and '-' become '_'; a clash gets a
// number.
std::vector<std::string> output_file_names(const std::vector<std::string>& names);

// Makes the directory if it is missing and writes each output into it. Errors: environment.
Status write_outputs(const std::string& directory, const std::vector<exec::NamedTensor>& outputs);

}  // namespace ompipe::cli
