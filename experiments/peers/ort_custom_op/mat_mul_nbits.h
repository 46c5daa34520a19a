// The operator ompipe::MatMulNBits for ONNX Runtime: attributes, inputs and outputs of com.microsoft::MatMulNBits, so
// that a model is moved by changing a node's domain.
#pragma once

#include <onnxruntime_c_api.h>

namespace ompipe_ort {

// A, B, scales, and, where given, zero_points and bias. B, scales and zero points must be constant: they are packed
// once, when a session makes the node's kernel. g_idx is refused. The tiles of a product run on the session's own
// threads. One for each type of A, bias and the result; scales and zero points may have another. The values live as
// long as the process; any thread.
const OrtCustomOp* mat_mul_nbits_f32();
const OrtCustomOp* mat_mul_nbits_f16();

}  // namespace ompipe_ort
