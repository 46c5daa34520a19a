#include "ompipe/io/digest.h"

#include <xxhash.h>
#if defined(__x86_64__)
// Chooses SSE2, AVX2 or AVX-512 at run time; the package's plain functions are SSE2. The hash is the same.
#include <xxh_x86dispatch.h>
#endif

#include <algorithm>

namespace ompipe::io {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using StatePointer = std::unique_ptr<XXH3_state_t, FreeState>;

StatePointer new_state() {
  StatePointer state(XXH3_createState());
  OMPIPE_CHECK(state != nullptr, "no memory for a hash state");
  XXH3_128bits_reset(state.get());
  return state;
}

Hash128 to_hash(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

Error malformed(std::string_view text, std::string_view expected) {
  return Error{.kind = ErrorKind::bad_model,
               .phase = "digest",
               .subject = "",
               .reason = "found \"" + std::string(text) + "\", expected " + std::string(expected)};
}

// The value of up to 16 hex digits; false if one isn't.
bool parse_word(std::string_view text, uint64_t& word) {
  word = 0;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    word = word << 4 | static_cast<uint64_t>(digit);
  }
  return true;
}

void append_word(std::string& text, uint64_t word) {
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
}

}  // namespace

Hash128 slice_hash(std::span<const std::byte> slice) {
  OMPIPE_CHECK(slice.size() <= kSliceBytes, "a slice is at most 1 MiB");
  return to_hash(XXH3_128bits(slice.data(), slice.size()));
}

Hash128 fold(std::span<const Hash128> slice_hashes) {
  const StatePointer state = new_state();
  for (const Hash128& hash : slice_hashes) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH128_hash_t{hash.low, hash.high});
    XXH3_128bits_update(state.get(), &canonical, sizeof canonical);
  }
  return to_hash(XXH3_128bits_digest(state.get()));
}

std::vector<Hash128> slice_hashes(std::span<const std::byte> payload) {
  std::vector<Hash128> hashes;
  hashes.reserve(slice_count(payload.size()));
  for (size_t begin = 0; begin < payload.size(); begin += kSliceBytes) {
    hashes.push_back(slice_hash(payload.subspan(begin, std::min<size_t>(kSliceBytes, payload.size() - begin))));
  }
  return hashes;
}

Hash128 digest_of(std::span<const std::byte> payload) { return fold(slice_hashes(payload)); }

struct DigestStream::State {
  StatePointer xxh = new_state();
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {}
DigestStream::~DigestStream() = default;
DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;

void DigestStream::update(std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const size_t taken = std::min<size_t>(piece.size(), kSliceBytes - slice_bytes_);
    XXH3_128bits_update(state_->xxh.get(), piece.data(), taken);
    slice_bytes_ += taken;
    if (slice_bytes_ == kSliceBytes) end_slice();
    piece = piece.subspan(taken);
  }
}

void DigestStream::end_slice() {
  slices_.push_back(to_hash(XXH3_128bits_digest(state_->xxh.get())));
  XXH3_128bits_reset(state_->xxh.get());
  slice_bytes_ = 0;
}

Hash128 DigestStream::finish() {
  if (slice_bytes_ > 0) end_slice();
  return fold(slices_);
}

std::string format_hash(const Hash128& hash) {
  std::string text;
  append_word(text, hash.high);
  append_word(text, hash.low);
  return text;
}

std::string format_digest(const Hash128& digest) { return std::string(kDigestPrefix) + format_hash(digest); }

Result<Hash128> parse_hash(std::string_view text) {
  Hash128 hash;
  if (text.size() != 32 || !parse_word(text.substr(0, 16), hash.high) || !parse_word(text.substr(16), hash.low)) {
    return malformed(text, "32 hex digits");
  }
  return hash;
}

Result<Hash128> parse_digest(std::string_view text) {
  if (!text.starts_with(kDigestPrefix)) return malformed(text, std::string(kDigestPrefix) + " and 32 hex digits");
  const auto hash = parse_hash(text.substr(kDigestPrefix.size()));
  return hash ? hash : malformed(text, std::string(kDigestPrefix) + " and 32 hex digits");
}

}  // namespace ompipe::io
