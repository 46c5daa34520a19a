// Recognises the inputs and outputs of a decoder export.
#pragma once

#include <optional>

#include "ompipe/model/resolved_model.h"

namespace ompipe::model {

// Absent unless there are input_ids, attention_mask and logits, at least one layer of past_key_values.N.key and .value
// with its present.N.key and .value, caches of one type and known heads and size, and no other input than position_ids.
std::optional<DecoderSignature> find_decoder_signature(const Resolution& model);

}  // namespace ompipe::model
