#include "ompipe/io/digest_list.h"

#include <doctest/doctest.h>

#include "support.h"

using namespace ompipe;
using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

DigestEntry entry(const std::string& name, uint64_t offset, size_t bytes, bool with_slices) {
  const auto payload = pattern(bytes);
  return {.name = name,
          .file = "poids à un.data",
          .offset = offset,
          .length = bytes,
          .digest = digest_of(payload),
          .slices = with_slices ? slice_hashes(payload) : std::vector<Hash128>{}};
}

Error refused(const std::string& text) {
  const auto parsed = parse_digest_list(text, "model.digests");
  REQUIRE(!parsed.ok());
  CHECK(parsed.error().kind == ErrorKind::bad_model);
  CHECK(parsed.error().file == "model.digests");
  return parsed.error();
}

const std::string kGood =
    format_digest_list(std::vector{entry("w", 0, 10, true), entry("v", 10, kSliceBytes + 1, true)});

// kGood with the first occurrence of one text replaced by another.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_SUITE_BEGIN("digest_list");

TEST_CASE("a list is read back as it was written, whatever the names") {
  const std::vector<DigestEntry> entries = {entry("model.layers.0/MatMul", 0, 3 * kSliceBytes, true),
                                            entry("with blank, \xC3\xA9, %41, \n, \t and \x7f", 64, 100, false),
                                            entry("", 1 << 30, 0, false), entry("%", 7, 1, true),
                                            entry("end 3", 7, 1, true)};
  const std::string text = format_digest_list(entries);
  CHECK(text.find("model.layers.0/MatMul poids%20à%20un.data 0 3145728 xxh3-128/1M:") != std::string::npos);
  const auto parsed = parse_digest_list(text, "f");
  REQUIRE(parsed.ok());
  CHECK(*parsed == entries);
  TemporaryDirectory directory;
  write_file(directory.path("model.digests"), bytes_of(text));
  CHECK(*read_digest_list(**FileHandle::open(directory.path("model.digests"))) == entries);
  CHECK(parse_digest_list(format_digest_list({}), "f")->empty());
}

TEST_CASE("damage is refused with its line") {
  CHECK(parse_digest_list(kGood, "f").ok());
  CHECK(refused("").reason == "line 0: the list is cut short");
  CHECK(refused("hello\n").reason == "line 1: found \"hello\", expected \"ompipe-digests 1\"");
  CHECK(refused(changed("ompipe-digests 1", "ompipe-digests 2")).reason.find("line 1") == 0);
  CHECK(refused(changed("v poids", "w poids")).reason == "line 3: the name \"w\" stands twice");
  CHECK(refused(changed("w poids", "w%zz poids")).reason == "line 2: the name is not percent-encoded");
  CHECK(refused(changed("un.data 0 ", "un.data -1 ")).reason == "line 2: the offset is not a number");
  CHECK(refused(changed(" 0 10 ", " 0 99999999999999999999 ")).reason == "line 2: the length is not a number");
  CHECK(refused(changed("xxh3-128/1M:", "md5:")).reason.find("line 2: found \"md5:") == 0);
  CHECK(refused(changed(" 10 1048577 ", " 10 1048576 ")).reason == "line 3: has 2 slice hashes, expected 1");
  CHECK(refused(changed(" 0 10 ", "  0 10 ")).reason == "line 2: the offset is not a number");
  CHECK(refused(kGood + "more\n").reason == "line 4: more lines follow the end");
  const std::string hex = format_hash(slice_hash(pattern(10)));
  const std::string other = format_hash(slice_hash(pattern(11)));
  CHECK(refused(changed(" " + hex, " " + other)).reason == "line 2: the slice hashes do not fold to the digest");
}

TEST_CASE("a list that is cut short anywhere is refused") {
  for (size_t length = 0; length < kGood.size(); ++length) {
    CAPTURE(length);
    CHECK(!parse_digest_list(kGood.substr(0, length), "f").ok());
  }
}

TEST_SUITE_END();
