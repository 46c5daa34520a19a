// The file of trusted digests (`model.digests`, --digests): one line a payload, with its slice hashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/io/digest.h"
#include "ompipe/io/file_handle.h"

namespace ompipe::io {

// One payload: the tensor's name, the location of its file as the model writes it, its range, its digest, and the
// hashes of all of its slices or none.
struct DigestEntry {
  std::string name = {};
  std::string file = {};
  uint64_t offset = 0;
  uint64_t length = 0;
  Hash128 digest = {};
  std::vector<Hash128> slices = {};
  bool operator==(const DigestEntry&) const = default;
};

// The format, in UTF-8, lines ended by "\n", fields separated by one blank:
//
//     ompipe-digests 1
//     NAME FILE OFFSET LENGTH xxh3-128/1M:HEX [SLICE-HEX ...]
//     end COUNT
//
// NAME and FILE are percent-encoded where a byte is a control character, a blank, a percent sign or 0x7f; an empty name
// is "%". Numbers are decimal. The last line tells a whole list from one cut short.
std::string format_digest_list(std::span<const DigestEntry> entries);

// Errors: bad_model with `source` and the line's number for an unknown version, a malformed line, a slice count that
// doesn't fit the length, slices that don't fold to the digest, a name that stands twice, a list cut short.
Result<std::vector<DigestEntry>> parse_digest_list(std::string_view text, const std::string& source);

// Reads and parses; also environment for read errors.
Result<std::vector<DigestEntry>> read_digest_list(const FileHandle& file);

}  // namespace ompipe::io
