// The inference functions of all operators; each file of rules holds one kind. `ops.cpp` names them in its table.
#pragma once

#include "ompipe/model/infer.h"

namespace ompipe::model::rules {

// rules_elementwise.cpp
bool unary_float(InferContext& context);    // float32 to float32
bool unary_number(InferContext& context);   // Neg, Relu: any arithmetic type
bool binary_number(InferContext& context);  // Add, Sub, Mul, Div, and Min and Max of any number of inputs
bool power(InferContext& context);          // Pow
bool equal(InferContext& context);
bool where(InferContext& context);
bool cast(InferContext& context);
bool same(InferContext& context);  // Identity, Dropout

// rules_matmul.cpp
bool mat_mul(InferContext& context);
bool gemm(InferContext& context);
bool mat_mul_nbits(InferContext& context);
bool mat_mul_integer(InferContext& context);
bool dynamic_quantize_linear(InferContext& context);

// rules_axes.cpp
bool softmax(InferContext& context);
bool reduce(InferContext& context);
bool layer_norm(InferContext& context);
bool simplified_layer_norm(InferContext& context);
bool skip_simplified_layer_norm(InferContext& context);

// rules_decoder.cpp
bool group_query_attention(InferContext& context);
bool gather_block_quantized(InferContext& context);

// rules_shape.cpp
bool shape(InferContext& context);
bool reshape(InferContext& context);
bool squeeze(InferContext& context);
bool unsqueeze(InferContext& context);
bool expand(InferContext& context);
bool constant_of_shape(InferContext& context);
bool range(InferContext& context);

// rules_movement.cpp
bool transpose(InferContext& context);
bool concat(InferContext& context);
bool slice(InferContext& context);
bool split(InferContext& context);
bool gather(InferContext& context);

}  // namespace ompipe::model::rules
