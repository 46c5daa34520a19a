// The inputs of a run: read from files, or made up as --fill and --dim say, and checked against the model.
#pragma once

#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/cli/options.h"
#include "ompipe/exec/context.h"
#include "ompipe/model/resolved_model.h"

namespace ompipe::cli {

// One tensor for each graph input that is given or filled; inputs that an initializer stands in for are left out unless
// given. Made-up integers are 0 or 1, so that they index any table; floats lie in [-1, 1). Errors: usage, naming the
// input: unknown, given twice, missing, of another dtype or shape, a dimension without a number; environment and usage
// of read_tensor_file; cannot_fit.
Result<std::vector<exec::NamedTensor>> make_inputs(const model::ResolvedModel& model, const RunCommand& command);

}  // namespace ompipe::cli
