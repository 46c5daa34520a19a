#include <cstdio>

#include "ompipe/cli/commands.h"
#include "progress.h"

namespace ompipe::cli {

Status run_generate(const GenerateCommand& command) {
  {
    const Progress progress(command.quiet);
    progress.show("writing " + command.options.directory + "/model.data");
    if (Status status = generate_model(command.options); !status) return status;
  }
  if (!command.quiet) std::printf("%s/model.onnx\n", command.options.directory.c_str());
  return ok_status();
}

}  // namespace ompipe::cli
