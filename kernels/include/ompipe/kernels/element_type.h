// The element types that kernels compute on or convert between.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ompipe::kernels {

// boolean is one byte, 0 or 1. f16 is IEEE binary16, bf16 the upper half of a float32; both are held as uint16_t.
enum class ElementType : uint8_t { f32, f64, f16, bf16, i8, u8, i32, i64, boolean };

constexpr size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::f64:
    case ElementType::i64:
      return 8;
    case ElementType::f32:
    case ElementType::i32:
      return 4;
    case ElementType::f16:
    case ElementType::bf16:
      return 2;
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::boolean:
      return 1;
  }
  return 0;
}

}  // namespace ompipe::kernels
