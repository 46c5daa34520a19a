#include "ompipe/cli/byte_size.h"

#include <charconv>
#include <string>

namespace ompipe::cli {

namespace {

Error bad_value(std::string_view option, std::string_view text, const char* expected) {
  return {.kind = ErrorKind::usage,
          .phase = "command line",
          .subject = std::string(option),
          .reason = "'" + std::string(text) + "' is not " + expected};
}

int suffix_shift(char suffix) {
  switch (suffix) {
    case 'K':
      return 10;
    case 'M':
      return 20;
    case 'G':
      return 30;
    default:
      return 0;
  }
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text, std::string_view option) {
  const char* const expected = "a number of bytes, such as 4096, 64K, 5M or 2G";
  const int shift = text.empty() ? 0 : suffix_shift(text.back());
  const std::string_view digits = shift ? text.substr(0, text.size() - 1) : text;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad_value(option, text, expected);
  if (value > (UINT64_MAX >> shift)) return bad_value(option, text, "below 2^64 bytes");
  return value << shift;
}

Result<session::LookAhead> parse_look_ahead(std::string_view text) {
  session::LookAhead look_ahead;
  if (!text.empty() && suffix_shift(text.back()) != 0) {
    Result<uint64_t> bytes = parse_bytes(text, "--look-ahead");
    if (!bytes) return bytes.error();
    look_ahead.bytes = *bytes;
    return look_ahead;
  }
  Result<int64_t> segments = parse_integer(text, "--look-ahead");
  if (!segments || *segments < 0 || *segments > INT32_MAX) {
    return bad_value("--look-ahead", text, "a number of segments (4) or of bytes (64M)");
  }
  look_ahead.segments = int(*segments);
  return look_ahead;
}

Result<int64_t> parse_integer(std::string_view text, std::string_view option) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return bad_value(option, text, "a whole number");
  return value;
}

}  // namespace ompipe::cli
