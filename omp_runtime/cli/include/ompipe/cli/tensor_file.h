// Tensors in files: NumPy's .npy, read and written, and ONNX TensorProto's .pb, read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/exec/tensor.h"

namespace ompipe::cli {

// A row-major tensor of zeros that owns its bytes, 64-byte aligned; `subject` is for messages. No dimension is
// negative. Errors: usage for more than 8 dimensions, cannot_fit for more bytes than the system gives.
Result<exec::HeldTensor> make_owned_tensor(model::DType dtype, const model::Shape& shape, const std::string& subject);

// The elements of any view, row-major and without gaps.
std::vector<std::byte> dense_bytes(const exec::Tensor& tensor);

// By the file's suffix: .npy, or .pb. Errors: environment (missing, unreadable, a directory), usage (another suffix, or
// what the readers below refuse).
Result<exec::HeldTensor> read_tensor_file(const std::string& path);

// NumPy's format, versions 1 to 3, little-endian, C order. '|V2' is bfloat16, as ml_dtypes saves it. `path` is for
// messages. Errors: usage, saying what was found: no .npy, another dtype, Fortran order, a header cut short, bytes
// missing or left over.
Result<exec::HeldTensor> parse_npy(std::span<const std::byte> bytes, const std::string& path);

// The header that parse_npy reads, padded so that the elements begin at a multiple of 64.
std::string npy_header(model::DType dtype, std::span<const int64_t> shape);

// Writes `path` as one step: the old file or the new one, whole. Errors: environment.
Status write_npy(const std::string& path, const exec::Tensor& tensor);

// onnx.proto's TensorProto: raw_data or the typed fields; no external data, no strings. Errors: usage, as parse_npy.
Result<exec::HeldTensor> parse_tensor_proto(std::span<const std::byte> bytes, const std::string& path);

}  // namespace ompipe::cli
