// What of a file lies in the page cache: measured, and dropped for cold experiments.
#pragma once

#include <cstdint>

#include "ompipe/arenas/error.h"
#include "ompipe/io/file_handle.h"

namespace ompipe::io {

// The share of the pages of [offset, offset + length) that are cached, 0 to 1; 1 for an empty range. By mincore, which
// tells the truth only about files that the process may write or owns (since Linux 5.2 it says "all" of others).
// Errors: bad_model (range), environment.
Result<double> resident_fraction(const FileHandle& file, uint64_t offset, uint64_t length);

// Writes back and drops the file's own pages, and checks that none is left. Errors: environment, with the share that
// stayed (somebody maps them, or the file system, as tmpfs, lives in the page cache).
Status drop_cached_pages(const FileHandle& file);

}  // namespace ompipe::io
