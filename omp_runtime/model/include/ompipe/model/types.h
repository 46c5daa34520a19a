// Element types and shapes, as the ONNX standard numbers and writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ompipe::model {

// Values of TensorProto.DataType (onnx.proto, "DataType").
enum class DType : int32_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16,
};

// Bytes of one element; 0 for strings and types this runtime does not hold.
size_t dtype_bytes(DType type);
const char* dtype_name(DType type);

// A concrete shape, row-major.
using Shape = std::vector<int64_t>;
// Number of elements; 1 for a scalar. The shape must be free of negative values.
int64_t element_count(const Shape& shape);
std::string shape_text(const Shape& shape);

// A dimension as a model states it: a number, a symbol, or unknown (neither).
struct Dim {
  std::optional<int64_t> value = {};
  std::string symbol = {};
};
using SymbolicShape = std::vector<Dim>;
std::string shape_text(const SymbolicShape& shape);  // "[batch_size, 8, ?]"

}  // namespace ompipe::model
