// Applies a trusted list of digests to the payloads that it names.
#pragma once

#include <string>

#include "ompipe/model/reader.h"

namespace ompipe::model {

// Reads the list at `path` and writes digests and slice hashes into the payloads of the same file and range. An entry
// wins over the model's own checksum; entries and payloads without a counterpart are noted. Errors: environment,
// bad_model (the list).
Status apply_trusted_digests(const std::string& path, ModelGraph& graph);

// The list beside the model, if there is one: untrusted, so its slice hashes are taken only where their fold is the
// digest that the model states. A damaged list becomes a note.
void adopt_slice_hashes(ModelGraph& graph);

}  // namespace ompipe::model
