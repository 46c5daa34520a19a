#include "cold_start.h"

#include <unistd.h>

#include <cerrno>

#include "ompipe/io/page_cache.h"
#include "ompipe/model/reader.h"

namespace ompipe::cli {

namespace {

constexpr const char* kPageCacheDropped = "--page-cache-dropped";

Status drop_model_pages(const std::string& model_path) {
  std::vector<std::shared_ptr<const io::FileHandle>> files;
  {
    const Result<model::ModelGraph> graph = model::read_model(model_path, {});
    if (!graph) return graph.error();
    for (const model::SourceFile& file : graph->files) files.push_back(file.handle);
  }
  for (const auto& file : files) {
    if (Status status = io::drop_cached_pages(*file); !status) return status;
  }
  return ok_status();
}

}  // namespace

Error restart_cold(const std::string& model_path, const Process& process) {
  if (Status status = drop_model_pages(model_path); !status) return status.error();
  std::vector<char*> arguments;
  arguments.reserve(process.command.size() + 2);
  for (const std::string& argument : process.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(const_cast<char*>(kPageCacheDropped));
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  return {.kind = ErrorKind::environment,
          .phase = "run",
          .subject = "--drop-page-cache",
          .reason = "the program can't be started again",
          .errno_value = errno};
}

std::vector<std::string> given_arguments(const Process& process) {
  std::vector<std::string> arguments = process.command;
  std::erase(arguments, kPageCacheDropped);
  return arguments;
}

}  // namespace ompipe::cli
