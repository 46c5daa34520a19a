// What is known of a value before any node runs: from its declared shape, or from the constant that it is.
#pragma once

#include "ompipe/model/infer.h"

namespace ompipe::model {

// Symbols become interned ones, or unknown where `symbols` is null.
TensorFact fact_of_shape(DType dtype, const SymbolicShape& shape, bool has_shape, SymbolTable* symbols);

// Writes integer contents of up to kMaxFollowedElements elements into the fact, which has its shape already.
void set_contents(const ConstantTensor& constant, ContentsPool& pool, TensorFact& fact);

}  // namespace ompipe::model
