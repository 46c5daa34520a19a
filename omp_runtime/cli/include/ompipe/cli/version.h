// Which ompipe this is and what built it, for --version and the report.
#pragma once

namespace ompipe::cli {

const char* version();
const char* git_commit();  // at which the build was configured; "unknown" without git
const char* compiler();

}  // namespace ompipe::cli
