#include "ompipe/model/types.h"

#include "ompipe/arenas/error.h"

namespace ompipe::model {

size_t dtype_bytes(DType type) {
  switch (type) {
    case DType::u8:
    case DType::i8:
    case DType::boolean:
      return 1;
    case DType::u16:
    case DType::i16:
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::i64:
    case DType::f64:
    case DType::u64:
      return 8;
    case DType::undefined:
    case DType::string:
      return 0;
  }
  return 0;
}

const char* dtype_name(DType type) {
  switch (type) {
    case DType::f32:
      return "float32";
    case DType::u8:
      return "uint8";
    case DType::i8:
      return "int8";
    case DType::u16:
      return "uint16";
    case DType::i16:
      return "int16";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    case DType::string:
      return "string";
    case DType::boolean:
      return "bool";
    case DType::f16:
      return "float16";
    case DType::f64:
      return "float64";
    case DType::u32:
      return "uint32";
    case DType::u64:
      return "uint64";
    case DType::bf16:
      return "bfloat16";
    case DType::undefined:
      break;
  }
  return "undefined";
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    OMPIPE_CHECK(dim >= 0 && !__builtin_mul_overflow(count, dim, &count), "shape without a number of elements");
  }
  return count;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string shape_text(const SymbolicShape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += shape[i].value ? std::to_string(*shape[i].value) : shape[i].symbol.empty() ? "?" : shape[i].symbol;
  }
  return text + "]";
}

}  // namespace ompipe::model
