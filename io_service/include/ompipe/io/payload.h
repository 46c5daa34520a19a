// The payload contract: bytes that cross a boundary are in exactly one of five states, each with its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "ompipe/io/file_handle.h"

namespace ompipe::io {

// Bytes that belong to whoever holds the payload: small values that were converted or copied out of a model.
struct OwnedBytes {
  std::vector<std::byte> bytes = {};
};

// Immutable bytes of a mapping (or of memory that stands for one). `owner` keeps them mapped. An untouched mapping is
// address space, not readiness: whoever publishes it has populated and checked it. A file truncated under it raises
// SIGBUS.
struct MappedBytes {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};
  FileIdentity identity = {};  // of the file when it was opened

  // The largest power of two, up to a page, that the first byte's address is a multiple of.
  uint64_t alignment() const;
};

// Bytes that the caller promises to keep unchanged while `lifetime` lives.
struct CallerBytes {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> lifetime = {};
};

// Bytes that nobody has read yet: a range of an opened file.
struct LazyDescriptor {
  std::shared_ptr<const FileHandle> source = {};
  uint64_t offset = 0;
  uint64_t length = 0;
};

// A range of an opened file and the place where its reader wants it, so that no whole-tensor copy stands between.
// `owner` keeps the destination alive.
struct FinalDestination {
  LazyDescriptor source = {};
  std::span<std::byte> destination = {};
  std::shared_ptr<const void> owner = {};
};

using Payload = std::variant<OwnedBytes, MappedBytes, CallerBytes, LazyDescriptor, FinalDestination>;

// The only ways to make a payload that has a source or an owner. An absent owner is the programmer's error; a range
// outside the file is bad_model; a destination of another size than the range is the programmer's error.
Payload mapped_payload(MappedBytes mapped);
Payload caller_payload(std::span<const std::byte> bytes, std::shared_ptr<const void> lifetime);
Result<Payload> lazy_payload(std::shared_ptr<const FileHandle> source, uint64_t offset, uint64_t length);
Result<Payload> destination_payload(std::shared_ptr<const FileHandle> source, uint64_t offset,
                                    std::span<std::byte> destination, std::shared_ptr<const void> owner);

uint64_t payload_bytes(const Payload& payload);

// The bytes, if they are in memory now (owned, mapped, caller's); valid while the payload lives. Absent: they have to
// be read.
std::optional<std::span<const std::byte>> bytes_in_memory(const Payload& payload);

// Maps a range of a file for reading, without touching it. The mapping's owner keeps the file open. Errors: bad_model
// (range), environment (mmap refused, with errno). The file must have a descriptor.
Result<MappedBytes> map_range(std::shared_ptr<const FileHandle> file, uint64_t offset, uint64_t length);

}  // namespace ompipe::io
