// SHA-1 of a whole file: what the ONNX standard calls the checksum of external data. Checked by `verify`, never an
// identity.
#pragma once

#include <string>
#include <string_view>

#include "ompipe/arenas/error.h"
#include "ompipe/io/file_handle.h"

namespace ompipe::io {

// 40 hex digits: the form in which the standard writes it.
bool is_sha1_checksum(std::string_view text);

// 40 lower-case hex digits. Reads the whole file through its descriptor, buffered. Errors: environment (read failed,
// file shorter than when it was opened).
Result<std::string> sha1_of(const FileHandle& file);

}  // namespace ompipe::io
