#include "ompipe/arenas/error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ompipe {

std::string Error::message() const {
  std::string text = phase;
  if (!subject.empty()) text += ": " + subject;
  if (!file.empty()) text += ": " + file;
  if (offset || length) text += " [" + std::to_string(offset.value_or(0)) + ", +" + std::to_string(length.value_or(0)) + ")";
  text += ": " + reason;
  if (got) text += " (got " + std::to_string(*got) + " bytes)";
  if (errno_value != 0) text += std::string(": ") + std::strerror(errno_value);
  return text;
}

void fail_check(const char* expression, const char* file, int line, const char* message) {
  std::fprintf(stderr, "ompipe: %s:%d: broken invariant: %s %s\n", file, line, expression, message);
  std::abort();
}

}  // namespace ompipe
