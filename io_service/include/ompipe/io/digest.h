// A payload's digest: XXH3-128 over the XXH3-128 of each slice of 1 MiB, so that slices hash in any order on any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/io/limits.h"

namespace ompipe::io {

// A 128-bit hash as a number; its canonical form is 16 bytes, high word first, each big-endian.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
};

// How a digest of this kind begins where it is written.
inline constexpr std::string_view kDigestPrefix = "xxh3-128/1M:";

// XXH3-128 (seed 0) of one slice, at most kSliceBytes long; only a payload's last slice is shorter.
Hash128 slice_hash(std::span<const std::byte> slice);

// The digest of a payload whose slices have these hashes, in order. An empty payload has no slice.
Hash128 fold(std::span<const Hash128> slice_hashes);

// Slices of a payload.
constexpr uint64_t slice_count(uint64_t bytes) { return bytes / kSliceBytes + (bytes % kSliceBytes != 0); }

// Digest and slice hashes of bytes that lie in memory.
std::vector<Hash128> slice_hashes(std::span<const std::byte> payload);
Hash128 digest_of(std::span<const std::byte> payload);

// The digest of bytes that come in order, in pieces of any size. One thread at a time.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;

  void update(std::span<const std::byte> piece);
  // The digest of everything so far; nothing may follow.
  Hash128 finish();
  // After finish().
  const std::vector<Hash128>& slices() const { return slices_; }

 private:
  void end_slice();
  struct State;
  std::unique_ptr<State> state_;
  uint64_t slice_bytes_ = 0;  // of the slice under way
  std::vector<Hash128> slices_;
};

std::string format_hash(const Hash128& hash);      // 32 lower-case hex digits
std::string format_digest(const Hash128& digest);  // with prefix

// bad_model, saying what was found, unless the text is 32 hex digits, with or without the prefix as the name says.
Result<Hash128> parse_hash(std::string_view text);
Result<Hash128> parse_digest(std::string_view text);

}  // namespace ompipe::io
