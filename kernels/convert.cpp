#include "ompipe/kernels/convert.h"

#include <limits>
#include <type_traits>

#include "convert_simd.h"
#include "half.h"
#include "simd_kernels.h"

namespace ompipe::kernels {
namespace {

// An element type as it lies in memory, and the C++ value that it stands for.
template <class Stored, class Value, Value (*load)(Stored), Stored (*store)(Value)>
struct Element {
  using StoredType = Stored;
  using ValueType = Value;
  static Value get(Stored stored) { return load(stored); }
  static Stored put(Value value) { return store(value); }
};

template <class T>
T same(T value) {
  return value;
}
bool byte_to_bool(uint8_t value) { return value != 0; }
uint8_t bool_to_byte(bool value) { return value ? 1 : 0; }

template <class T>
using Plain = Element<T, T, same<T>, same<T>>;
using Half = Element<uint16_t, float, half_to_float, float_to_half>;
using Bfloat = Element<uint16_t, float, bfloat_to_float, float_to_bfloat>;
using Boolean = Element<uint8_t, bool, byte_to_bool, bool_to_byte>;

template <class To, class From>
To convert_value(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Both bounds are powers of two (or 0), so they are exact in From.
    constexpr From lowest = From(std::numeric_limits<To>::min());
    constexpr From beyond = From(2) * From(std::numeric_limits<To>::max() / 2 + 1);
    if (value != value) return 0;
    if (value <= lowest) return std::numeric_limits<To>::min();
    return value >= beyond ? std::numeric_limits<To>::max() : To(value);
  } else {
    return static_cast<To>(value);
  }
}

using Converter = void (*)(const void* from, void* to, int64_t count);

template <class From, class To>
void convert_range(const void* from, void* to, int64_t count) {
  const auto* source = static_cast<const typename From::StoredType*>(from);
  auto* target = static_cast<typename To::StoredType*>(to);
  for (int64_t i = 0; i < count; ++i) {
    target[i] = To::put(convert_value<typename To::ValueType>(From::get(source[i])));
  }
}

template <class From>
Converter converter_to(ElementType to) {
  switch (to) {
    case ElementType::f32:
      return convert_range<From, Plain<float>>;
    case ElementType::f64:
      return convert_range<From, Plain<double>>;
    case ElementType::f16:
      return convert_range<From, Half>;
    case ElementType::bf16:
      return convert_range<From, Bfloat>;
    case ElementType::i8:
      return convert_range<From, Plain<int8_t>>;
    case ElementType::u8:
      return convert_range<From, Plain<uint8_t>>;
    case ElementType::i32:
      return convert_range<From, Plain<int32_t>>;
    case ElementType::i64:
      return convert_range<From, Plain<int64_t>>;
    case ElementType::boolean:
      return convert_range<From, Boolean>;
  }
  return nullptr;
}

Converter converter(ElementType from, ElementType to) {
  switch (from) {
    case ElementType::f32:
      return converter_to<Plain<float>>(to);
    case ElementType::f64:
      return converter_to<Plain<double>>(to);
    case ElementType::f16:
      return converter_to<Half>(to);
    case ElementType::bf16:
      return converter_to<Bfloat>(to);
    case ElementType::i8:
      return converter_to<Plain<int8_t>>(to);
    case ElementType::u8:
      return converter_to<Plain<uint8_t>>(to);
    case ElementType::i32:
      return converter_to<Plain<int32_t>>(to);
    case ElementType::i64:
      return converter_to<Plain<int64_t>>(to);
    case ElementType::boolean:
      return converter_to<Boolean>(to);
  }
  return nullptr;
}

void convert_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& a = *static_cast<const ConvertArguments*>(raw);
  const ConvertRange range = range_of_tile(a, tile);
  converter(a.from_type, a.to_type)(range.from, range.to, range.count);
}

}  // namespace

TiledCall convert_call(const ConvertArguments& a, Isa isa) {
  constexpr double kNsPerElement = 0.5;
  TiledCall::RunTile run = convert_tile;
  if (a.from_type == ElementType::f16 && a.to_type == ElementType::f32) {
    run = simd_kernels(isa).half_to_float;
  } else if (a.from_type == ElementType::f32 && a.to_type == ElementType::f16) {
    run = simd_kernels(isa).float_to_half;
  }
  return one_phase(&a, run, element_tiles(a.count), kNsPerElement * double(a.count));
}

}  // namespace ompipe::kernels
