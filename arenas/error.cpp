#include "ompipe/arenas/error.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace ompipe {
namespace {

// Control characters, which names in damaged files may hold, as \xNN: a message is one line.
std::string one_line(const std::string& text) {
  std::string line;
  for (unsigned char c : text) {
    if (c >= 0x20 && c != 0x7f) {
      line += char(c);
      continue;
    }
    char escaped[5];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", c);
    line += escaped;
  }
  return line;
}

std::string range_text(const Error& error) {
  if (!error.offset && !error.length) return {};
  const std::string end = error.length ? "+" + std::to_string(*error.length) : "...";
  return " [" + std::to_string(error.offset.value_or(0)) + ", " + end + ")";
}

void append_part(std::string* text, const std::string& part) {
  if (part.empty()) return;
  if (!text->empty()) *text += ": ";
  *text += part;
}

}  // namespace

std::string Error::message() const {
  std::string text = phase;
  append_part(&text, subject);
  append_part(&text, file.empty() && !offset && !length ? std::string() : file + range_text(*this));
  append_part(&text, reason);
  if (got) text += " (got " + std::to_string(*got) + " bytes)";
  // Not strerror, which need not be safe between threads.
  if (errno_value != 0) append_part(&text, std::generic_category().message(errno_value));
  return one_line(text);
}

void fail_check(const char* expression, const char* file, int line, const char* message) {
  std::fprintf(stderr, "ompipe: %s:%d: broken invariant: %s %s\n", file, line, expression, message);
  std::abort();
}

}  // namespace ompipe
