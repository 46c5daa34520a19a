#include "ompipe/cli/version.h"

namespace ompipe::cli {

const char* version() { return OMPIPE_VERSION; }

const char* git_commit() { return OMPIPE_GIT; }

const char* compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace ompipe::cli
