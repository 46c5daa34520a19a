#include "ompipe/io/digest_list.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>

namespace ompipe::io {
namespace {

constexpr std::string_view kHeader = "ompipe-digests 1";

bool needs_escape(unsigned char c) { return c <= ' ' || c == '%' || c == 0x7f; }

std::string escape(std::string_view text) {
  if (text.empty()) return "%";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (needs_escape(byte)) {
      escaped += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// False for a percent sign that two hex digits don't follow.
bool unescape(std::string_view escaped, std::string& text) {
  text.clear();
  if (escaped == "%") return true;
  for (size_t at = 0; at < escaped.size(); ++at) {
    if (escaped[at] != '%') {
      text += escaped[at];
      continue;
    }
    if (at + 2 >= escaped.size()) return false;
    unsigned value;
    const char* const begin = escaped.data() + at + 1;
    if (std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) return false;
    text += static_cast<char>(value);
    at += 2;
  }
  return true;
}

bool parse_number(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Takes what stands before the next separator off the front of `rest`.
std::string_view take(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

// The reason why a line is refused, or an empty string.
std::string parse_entry(std::string_view line, DigestEntry& entry) {
  if (!unescape(take(line, ' '), entry.name)) return "the name is not percent-encoded";
  if (!unescape(take(line, ' '), entry.file)) return "the file is not percent-encoded";
  if (!parse_number(take(line, ' '), entry.offset)) return "the offset is not a number";
  if (!parse_number(take(line, ' '), entry.length)) return "the length is not a number";
  const auto digest = parse_digest(take(line, ' '));
  if (!digest) return digest.error().reason;
  entry.digest = *digest;
  entry.slices.clear();
  while (!line.empty()) {
    const auto slice = parse_hash(take(line, ' '));
    if (!slice) return slice.error().reason;
    entry.slices.push_back(*slice);
  }
  if (entry.slices.empty()) return "";
  if (entry.slices.size() != slice_count(entry.length)) {
    return "has " + std::to_string(entry.slices.size()) + " slice hashes, expected " +
           std::to_string(slice_count(entry.length));
  }
  return fold(entry.slices) == entry.digest ? "" : "the slice hashes do not fold to the digest";
}

}  // namespace

std::string format_digest_list(std::span<const DigestEntry> entries) {
  std::string text = std::string(kHeader) + "\n";
  for (const DigestEntry& entry : entries) {
    text += escape(entry.name) + " " + escape(entry.file) + " " + std::to_string(entry.offset) + " " +
            std::to_string(entry.length) + " " + format_digest(entry.digest);
    for (const Hash128& slice : entry.slices) text += " " + format_hash(slice);
    text += "\n";
  }
  return text + "end " + std::to_string(entries.size()) + "\n";
}

Result<std::vector<DigestEntry>> parse_digest_list(std::string_view text, const std::string& source) {
  size_t number = 0;
  const auto refuse = [&](std::string reason) {
    return Error{.kind = ErrorKind::bad_model,
                 .phase = "digest",
                 .subject = "",
                 .reason = "line " + std::to_string(number) + ": " + std::move(reason),
                 .file = source};
  };
  std::vector<DigestEntry> entries;
  std::set<std::string> names;
  while (!text.empty()) {
    ++number;
    if (text.find('\n') == std::string_view::npos) return refuse("the list is cut short");
    const std::string_view line = take(text, '\n');
    if (number == 1) {
      if (line != kHeader)
        return refuse("found \"" + std::string(line.substr(0, 40)) + "\", expected \"" + std::string(kHeader) + "\"");
    } else if (line.starts_with("end ")) {
      uint64_t count;
      if (!parse_number(line.substr(4), count) || count != entries.size()) {
        return refuse("found \"" + std::string(line) + "\" after " + std::to_string(entries.size()) + " payloads");
      }
      if (!text.empty()) return refuse("more lines follow the end");
      return entries;
    } else {
      DigestEntry entry;
      if (std::string reason = parse_entry(line, entry); !reason.empty()) return refuse(std::move(reason));
      if (!names.insert(entry.name).second) return refuse("the name \"" + entry.name + "\" stands twice");
      entries.push_back(std::move(entry));
    }
  }
  return refuse("the list is cut short");
}

Result<std::vector<DigestEntry>> read_digest_list(const FileHandle& file) {
  std::string text(file.size_bytes(), '\0');
  for (size_t got = 0; got < text.size();) {
    const ssize_t bytes = pread(file.descriptor(), text.data() + got, text.size() - got, static_cast<off_t>(got));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {
      return Error{.phase = "digest",
                   .subject = "",
                   .reason = bytes == 0 ? "the file ended early" : "cannot be read",
                   .file = file.path(),
                   .offset = 0,
                   .length = text.size(),
                   .got = got,
                   .errno_value = bytes == 0 ? 0 : errno};
    }
    got += static_cast<size_t>(bytes);
  }
  return parse_digest_list(text, file.path());
}

}  // namespace ompipe::io
