// Byte sizes as the command line writes them: a number with an optional K, M or G (powers of 1024).
#pragma once

#include <cstdint>
#include <string_view>

#include "ompipe/arenas/error.h"
#include "ompipe/session/options.h"

namespace ompipe::cli {

// "4096", "64K", "1.5G" is not one: whole numbers only. Errors: usage, naming `option`.
Result<uint64_t> parse_bytes(std::string_view text, std::string_view option);

// --look-ahead: a plain number counts segments, one with a suffix bytes. Errors: usage.
Result<session::LookAhead> parse_look_ahead(std::string_view text);

// A whole decimal number. Errors: usage, naming `option`.
Result<int64_t> parse_integer(std::string_view text, std::string_view option);

}  // namespace ompipe::cli
