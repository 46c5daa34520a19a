#include <doctest/doctest.h>

#include <algorithm>

#include "ompipe/io/digest.h"
#include "ompipe/io/file_checksum.h"
#include "support.h"

using namespace ompipe;
using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

// Of pattern(bytes): the digest and the first slice's hash by the xxhsum 0.8.1 program (the canonical bytes of its
// per-slice output fed to it again), and the SHA-1 by Python's hashlib.
struct Known {
  size_t bytes;
  const char* digest;
  const char* first_slice;
  const char* sha1;
};
constexpr Known kKnown[] = {{0, "99aa06d3014798d86001c324468d497f", "99aa06d3014798d86001c324468d497f",
                             "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
                            {1, "a31c3ef27874fae2f2c08395e3befff5", "22bbb76b211a39ba13e608bc156defed",
                             "9842926af7ca0a8cca12604f945414f07b01e13d"},
                            {3, "43e4976392426f27390051836c71b29e", "a7141a4d6424893f974a8c6fa70c32a8",
                             "0ddae5401eeac088788797faf349c10ab91b8107"},
                            {16, "d21c47d87e4c2b08d26d5e7bfaa79f3a", "f3e407b341dfba3134dbab61519e4476",
                             "a8a44bfb10682fe159821db8ecd133fada70bf58"},
                            {17, "5f950cf00045dbb1fa22d5dbd29d66f6", "1879de0d8e7d0625980d68f6d41eb28d",
                             "7eab4d7d047c59dbb704435a0a0cc5c2c02213d5"},
                            {240, "af2c90223650ff9933819ba39176f647", "7db5606af28958ff1b7ccd7ad717c030",
                             "a8302348433da7abcb8f99bbe84247301ce26cf0"},
                            {241, "c8d35638ca923618b5f50f62da8891f9", "bcb184a76a650df6ef630bb6bb6cfe02",
                             "12571b677f86719252e4aa38f6b1f9723c5d6747"},
                            {4096, "41298e97f0515969888b5c13b682a12e", "093668dcf0ffc944fd767bcb91a536b5",
                             "b50e51ad661f41bc8aa60ebd0dd6b7fbbb921805"},
                            {1048575, "5b1f168d583278f9dc29f117d6112462", "72b0dd0c2521feffa4e6ce2d9963a75b",
                             "1d47fc73e645c5e3e64c451226622416444b4d27"},
                            {1048576, "a3f07e92ca0e3df6a1b5036418c27b1d", "b192484b291511c2e0810ee9f36c44ff",
                             "0fff097e33f85c6a7adcde19d7993d2f1f5428b4"},
                            {1048577, "3c3c54a212e9dc2cc4d292d1fe3f0c03", "b192484b291511c2e0810ee9f36c44ff",
                             "b5b94d189c519794783148963f55ebc94a70698b"},
                            {3158073, "f03d17b1de3e1acde26c16918ba75256", "b192484b291511c2e0810ee9f36c44ff",
                             "f07ab363c1cceb816d251a9774481f4bff3f2b77"}};

}  // namespace

TEST_SUITE_BEGIN("digests");

TEST_CASE("digests, slice hashes and SHA-1 equal those of independent programs") {
  TemporaryDirectory directory;
  for (const Known& known : kKnown) {
    CAPTURE(known.bytes);
    const auto bytes = pattern(known.bytes);
    CHECK(format_digest(digest_of(bytes)) == std::string("xxh3-128/1M:") + known.digest);
    CHECK(format_hash(slice_hash(std::span(bytes).first(std::min<size_t>(known.bytes, kSliceBytes)))) ==
          known.first_slice);
    write_file(directory.path("f"), bytes);
    CHECK(*sha1_of(**FileHandle::open(directory.path("f"))) == known.sha1);
    CHECK(is_sha1_checksum(known.sha1));
  }
}

TEST_CASE("a stream gives the same digest whatever its pieces are") {
  const auto bytes = pattern(2 * kSliceBytes + 777);
  const Hash128 expected = digest_of(bytes);
  for (const size_t step :
       {size_t{1000}, size_t{kSliceBytes - 1}, size_t{kSliceBytes}, size_t{kSliceBytes + 1}, bytes.size()}) {
    DigestStream stream;
    for (size_t begin = 0; begin < bytes.size(); begin += step) {
      stream.update(std::span(bytes).subspan(begin, std::min(step, bytes.size() - begin)));
    }
    CHECK(stream.finish() == expected);
    CHECK(stream.slices() == slice_hashes(bytes));
    CHECK(stream.slices().size() == slice_count(bytes.size()));
  }
  CHECK(DigestStream().finish() == digest_of({}));
}

TEST_CASE("a changed bit and two exchanged slices change the digest") {
  auto bytes = pattern(2 * kSliceBytes);
  const Hash128 before = digest_of(bytes);
  bytes[kSliceBytes + 5] ^= std::byte{1};
  CHECK(digest_of(bytes) != before);
  bytes[kSliceBytes + 5] ^= std::byte{1};
  std::rotate(bytes.begin(), bytes.begin() + kSliceBytes, bytes.end());
  CHECK(digest_of(bytes) != before);
}

TEST_CASE("digests are parsed back, and what isn't one is refused with what was found") {
  const Hash128 hash{0x0123456789abcdef, 0xfedcba9876543210};
  CHECK(format_digest(hash) == "xxh3-128/1M:0123456789abcdeffedcba9876543210");
  CHECK(*parse_digest(format_digest(hash)) == hash);
  CHECK(*parse_hash("0123456789ABCDEFFEDCBA9876543210") == hash);
  for (const char* wrong :
       {"", "xxh3-128/1M:", "xxh3-128/1M:0123", "xxh3-128/2M:0123456789abcdeffedcba9876543210",
        "xxh3-128/1M:0123456789abcdeffedcba987654321g", "xxh3-128/1M:0123456789abcdeffedcba98765432100",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709"}) {
    const auto parsed = parse_digest(wrong);
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().kind == ErrorKind::bad_model);
    CHECK(parsed.error().reason.find(std::string("found \"") + wrong + "\"") == 0);
  }
}

TEST_CASE("a SHA-1 checksum is 40 hex digits and nothing else") {
  CHECK(is_sha1_checksum("DA39A3EE5E6B4B0D3255BFEF95601890AFD80709"));
  CHECK(!is_sha1_checksum("da39a3ee5e6b4b0d3255bfef95601890afd8070"));
  CHECK(!is_sha1_checksum("da39a3ee5e6b4b0d3255bfef95601890afd8070x"));
  CHECK(!is_sha1_checksum("xxh3-128/1M:99aa06d3014798d86001c3"));
}

TEST_SUITE_END();
