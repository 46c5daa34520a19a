// --drop-page-cache: a start whose model files are not in memory.
#pragma once

#include "ompipe/arenas/error.h"
#include "ompipe/cli/commands.h"

namespace ompipe::cli {

// Drops every file of the model from the page cache, checks that none of it is left, and starts this program again with
// the same arguments and kPageCacheDropped, so that the milestones count from a start that did nothing else. Returns
// only with an error: those of model::read_model and io::drop_cached_pages; environment when the program can't be
// started.
Error restart_cold(const std::string& model_path, const Process& process);

// The arguments as the user gave them.
std::vector<std::string> given_arguments(const Process& process);

}  // namespace ompipe::cli
