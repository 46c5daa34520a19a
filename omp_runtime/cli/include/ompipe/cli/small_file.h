// Whole files of the user's, read and written in one call.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ompipe/arenas/error.h"

namespace ompipe::cli {

// Errors: environment (missing, unreadable, a directory or a pipe in its place, shorter than it said).
Result<std::vector<std::byte>> read_small_file(const std::string& path);

// Publishes `text` as one step: readers see the old file or the new one, whole. Something that is no regular file (a
// pipe, /dev/stdout) is written as it is. Errors: environment.
Status write_small_file(const std::string& path, std::string_view text);

// Whether write_small_file may be expected to succeed: the directory is there and takes new files, or the special file
// is writable. Errors: environment.
Status check_writable(const std::string& path);

}  // namespace ompipe::cli
