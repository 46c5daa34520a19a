#include "progress.h"

#include <unistd.h>

#include <cstdio>

namespace ompipe::cli {

Progress::Progress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(const std::string& text) const {
  if (shown_) std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
}

}  // namespace ompipe::cli
