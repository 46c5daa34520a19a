// Error::message: one line with everything that applies, and nothing that doesn't.
#include "ompipe/arenas/error.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

using namespace ompipe;

TEST_SUITE("error") {
  TEST_CASE("all fields, in the order phase, subject, file and range, reason, got, system") {
    const Error error{.phase = "read",
                      .subject = "layer0.weight",
                      .reason = "ends early",
                      .file = "model.data",
                      .offset = 4096,
                      .length = 512,
                      .got = 100,
                      .errno_value = EIO};
    CHECK(error.message() ==
          "read: layer0.weight: model.data [4096, +512): ends early (got 100 bytes): Input/output error");
  }

  TEST_CASE("absent fields leave no trace") {
    CHECK(Error{.phase = "open", .reason = "is a directory", .file = "m"}.message() == "open: m: is a directory");
    CHECK(Error{.phase = "plan", .subject = "node"}.message() == "plan: node");
    CHECK(Error{.reason = "only a reason"}.message() == "only a reason");
    CHECK(Error{.phase = "read", .reason = "r", .file = "f", .offset = 7}.message() == "read: f [7, ...): r");
    CHECK(Error{.phase = "read", .reason = "r", .got = 0}.message() == "read: r (got 0 bytes)");
  }

  TEST_CASE("stays one line whatever the names in it are") {
    const Error error{.phase = "open", .subject = "a\nb", .reason = "tab\there\x01", .file = "weights \xc3\xa9.data"};
    CHECK(error.message() == "open: a\\x0ab: weights \xc3\xa9.data: tab\\x09here\\x01");
  }

  TEST_CASE("a result holds a value or an error") {
    Result<std::string> value(std::string("v"));
    CHECK(value.ok());
    CHECK(*value == "v");
    Result<std::string> error(Error{.reason = "no"});
    CHECK_FALSE(error);
    CHECK(error.error().reason == "no");
    CHECK(std::move(value).value() == "v");
  }
}
