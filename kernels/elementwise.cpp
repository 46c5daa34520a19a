#include "ompipe/kernels/elementwise.h"

#include <cstring>
#include <type_traits>

#include "simd_kernels.h"
#include "strided_runs.h"

namespace ompipe::kernels {
namespace {

// Rough times on one core of the reference machine, for TiledCall::phase_ns.
constexpr double kNsPerElement = 0.4;
constexpr double kNsPerTranscendental = 1.5;

template <class T>
const T* input(const ElementwiseArguments& arguments, int index) {
  return static_cast<const T*>(arguments.inputs[index]);
}

// Output, then inputs: the strides of the innermost dimension.
std::array<int64_t, kMaxOperands> inner_strides(const StridedLoop& loop) {
  std::array<int64_t, kMaxOperands> strides = {};
  for (int i = 0; i < loop.operand_count; ++i) strides[i] = loop.strides[i][loop.rank - 1];
  return strides;
}

// output[...] = apply(inputs...) over one tile, for any element types.
template <class Output, class Input, class Apply>
void map_tile(const ElementwiseArguments& arguments, int64_t tile, Apply apply) {
  const auto strides = inner_strides(arguments.loop);
  for_each_run_of_tile(arguments.loop, tile, [&](const auto& offsets, int64_t count) {
    Output* to = static_cast<Output*>(arguments.output) + offsets[0];
    const Input* a = input<Input>(arguments, 0) + offsets[1];
    if constexpr (std::is_invocable_v<Apply, Input, Input>) {
      const Input* b = input<Input>(arguments, 1) + offsets[2];
      for (int64_t i = 0; i < count; ++i) to[i * strides[0]] = apply(a[i * strides[1]], b[i * strides[2]]);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * strides[0]] = apply(a[i * strides[1]]);
    }
  });
}

// Two's complement arithmetic that wraps.
template <class T, class F>
T wrap(T a, T b, F f) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
}

template <class T>
T divide(T a, T b) {
  if (b == 0) return 0;
  return b == -1 ? wrap(T(0), a, [](auto x, auto y) { return x - y; }) : a / b;
}

template <class T>
T multiply(T a, T b) {
  return wrap(a, b, [](auto x, auto y) { return x * y; });
}

template <class T>
T power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  T result = 1;
  for (; exponent > 0; exponent /= 2, base = multiply(base, base)) {
    if (exponent % 2 == 1) result = multiply(result, base);
  }
  return result;
}

template <class T, UnaryOp op>
T apply_integer(T x) {
  if constexpr (op == UnaryOp::logical_not) return x == 0;
  if constexpr (op == UnaryOp::relu) return x < 0 ? 0 : x;
  const T negated = wrap(T(0), x, [](auto a, auto b) { return a - b; });
  if constexpr (op == UnaryOp::neg) return negated;
  if constexpr (op == UnaryOp::abs) return x < 0 ? negated : x;
}

template <class T, BinaryOp op>
T apply_integer(T a, T b) {
  if constexpr (op == BinaryOp::add) return wrap(a, b, [](auto x, auto y) { return x + y; });
  if constexpr (op == BinaryOp::sub) return wrap(a, b, [](auto x, auto y) { return x - y; });
  if constexpr (op == BinaryOp::mul) return multiply(a, b);
  if constexpr (op == BinaryOp::div) return divide(a, b);
  if constexpr (op == BinaryOp::pow) return power(a, b);
  if constexpr (op == BinaryOp::min) return b < a ? b : a;
  if constexpr (op == BinaryOp::max) return a < b ? b : a;
}

template <class T, UnaryOp op>
void integer_unary_tile(const void* raw, int, int64_t tile, std::byte*) {
  map_tile<T, T>(*static_cast<const ElementwiseArguments*>(raw), tile, [](T x) { return apply_integer<T, op>(x); });
}

template <class T, BinaryOp op>
void integer_binary_tile(const void* raw, int, int64_t tile, std::byte*) {
  map_tile<T, T>(*static_cast<const ElementwiseArguments*>(raw), tile,
                 [](T a, T b) { return apply_integer<T, op>(a, b); });
}

template <class T, BinaryOp op>
void comparison_tile(const void* raw, int, int64_t tile, std::byte*) {
  map_tile<uint8_t, T>(*static_cast<const ElementwiseArguments*>(raw), tile, [](T a, T b) -> uint8_t {
    return op == BinaryOp::equal ? a == b : op == BinaryOp::less ? a < b : b < a;
  });
}

template <class T>
TiledCall::RunTile integer_unary(UnaryOp op) {
  switch (op) {
    case UnaryOp::abs:
      return integer_unary_tile<T, UnaryOp::abs>;
    case UnaryOp::neg:
      return integer_unary_tile<T, UnaryOp::neg>;
    case UnaryOp::relu:
      return integer_unary_tile<T, UnaryOp::relu>;
    default:
      return nullptr;
  }
}

template <class T>
TiledCall::RunTile integer_binary(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return integer_binary_tile<T, BinaryOp::add>;
    case BinaryOp::sub:
      return integer_binary_tile<T, BinaryOp::sub>;
    case BinaryOp::mul:
      return integer_binary_tile<T, BinaryOp::mul>;
    case BinaryOp::div:
      return integer_binary_tile<T, BinaryOp::div>;
    case BinaryOp::pow:
      return integer_binary_tile<T, BinaryOp::pow>;
    case BinaryOp::min:
      return integer_binary_tile<T, BinaryOp::min>;
    case BinaryOp::max:
      return integer_binary_tile<T, BinaryOp::max>;
    default:
      return nullptr;
  }
}

template <class T>
TiledCall::RunTile comparison(BinaryOp op) {
  switch (op) {
    case BinaryOp::equal:
      return comparison_tile<T, BinaryOp::equal>;
    case BinaryOp::less:
      return comparison_tile<T, BinaryOp::less>;
    case BinaryOp::greater:
      return comparison_tile<T, BinaryOp::greater>;
    default:
      return nullptr;
  }
}

bool is_comparison(BinaryOp op) { return op >= BinaryOp::equal; }

TiledCall::RunTile unary_kernel(UnaryOp op, ElementType type, Isa isa) {
  switch (type) {
    case ElementType::f32:
      return int(op) < kUnaryOps ? simd_kernels(isa).unary_f32[int(op)] : nullptr;
    case ElementType::i32:
      return integer_unary<int32_t>(op);
    case ElementType::i64:
      return integer_unary<int64_t>(op);
    case ElementType::boolean:
      return op == UnaryOp::logical_not ? integer_unary_tile<uint8_t, UnaryOp::logical_not> : nullptr;
    default:
      return nullptr;
  }
}

TiledCall::RunTile binary_kernel(BinaryOp op, ElementType type, Isa isa) {
  switch (type) {
    case ElementType::f32:
      return is_comparison(op) ? comparison<float>(op) : simd_kernels(isa).binary_f32[int(op)];
    case ElementType::i32:
      return is_comparison(op) ? comparison<int32_t>(op) : integer_binary<int32_t>(op);
    case ElementType::i64:
      return is_comparison(op) ? comparison<int64_t>(op) : integer_binary<int64_t>(op);
    case ElementType::boolean:
      return op == BinaryOp::equal ? comparison_tile<uint8_t, BinaryOp::equal> : nullptr;
    default:
      return nullptr;
  }
}

bool is_transcendental(UnaryOp op) { return op >= UnaryOp::exp && op <= UnaryOp::gelu_tanh; }

template <class T>
void where_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& arguments = *static_cast<const ElementwiseArguments*>(raw);
  const auto strides = inner_strides(arguments.loop);
  for_each_run_of_tile(arguments.loop, tile, [&](const auto& offsets, int64_t count) {
    T* to = static_cast<T*>(arguments.output) + offsets[0];
    const uint8_t* condition = input<uint8_t>(arguments, 0) + offsets[1];
    const T* a = input<T>(arguments, 1) + offsets[2];
    const T* b = input<T>(arguments, 2) + offsets[3];
    for (int64_t i = 0; i < count; ++i) {
      to[i * strides[0]] = condition[i * strides[1]] != 0 ? a[i * strides[2]] : b[i * strides[3]];
    }
  });
}

template <class T>
void copy_tile(const void* raw, int, int64_t tile, std::byte*) {
  const auto& arguments = *static_cast<const ElementwiseArguments*>(raw);
  const auto strides = inner_strides(arguments.loop);
  for_each_run_of_tile(arguments.loop, tile, [&](const auto& offsets, int64_t count) {
    T* to = static_cast<T*>(arguments.output) + offsets[0];
    const T* from = input<T>(arguments, 0) + offsets[1];
    if (strides[0] == 1 && strides[1] == 1) {
      std::memcpy(to, from, size_t(count) * sizeof(T));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * strides[0]] = from[i * strides[1]];
    }
  });
}

template <template <class> class Kernel>
TiledCall::RunTile by_size(ElementType type) {
  switch (element_bytes(type)) {
    case 1:
      return Kernel<uint8_t>::run;
    case 2:
      return Kernel<uint16_t>::run;
    case 4:
      return Kernel<uint32_t>::run;
    default:
      return Kernel<uint64_t>::run;
  }
}
template <class T>
struct Where {
  static constexpr TiledCall::RunTile run = where_tile<T>;
};
template <class T>
struct Copy {
  static constexpr TiledCall::RunTile run = copy_tile<T>;
};

TiledCall elementwise(const ElementwiseArguments& arguments, TiledCall::RunTile run, double ns_per_element) {
  const int64_t count = arguments.loop.element_count;
  return one_phase(&arguments, run, element_tiles(count), double(count) * ns_per_element);
}

template <class T>
void fill_range_of(const void* start, const void* delta, int64_t count, void* output) {
  using U = std::conditional_t<std::is_same_v<T, float>, float, uint64_t>;
  const U first = static_cast<U>(*static_cast<const T*>(start)), step = static_cast<U>(*static_cast<const T*>(delta));
  for (int64_t i = 0; i < count; ++i) static_cast<T*>(output)[i] = static_cast<T>(first + static_cast<U>(i) * step);
}

}  // namespace

bool supports(UnaryOp op, ElementType type) { return unary_kernel(op, type, Isa::scalar) != nullptr; }
bool supports(BinaryOp op, ElementType type) { return binary_kernel(op, type, Isa::scalar) != nullptr; }

TiledCall unary_call(UnaryOp op, const ElementwiseArguments& arguments, Isa isa) {
  const double ns = is_transcendental(op) ? kNsPerTranscendental : kNsPerElement;
  return elementwise(arguments, unary_kernel(op, arguments.type, isa), ns);
}

TiledCall binary_call(BinaryOp op, const ElementwiseArguments& arguments, Isa isa) {
  return elementwise(arguments, binary_kernel(op, arguments.type, isa), kNsPerElement);
}

TiledCall where_call(const ElementwiseArguments& arguments) {
  return elementwise(arguments, by_size<Where>(arguments.type), kNsPerElement);
}

TiledCall copy_call(const ElementwiseArguments& arguments) {
  return elementwise(arguments, by_size<Copy>(arguments.type), kNsPerElement);
}

void fill_range(ElementType type, const void* start, const void* delta, int64_t count, void* output) {
  if (type == ElementType::f32) return fill_range_of<float>(start, delta, count, output);
  if (type == ElementType::i32) return fill_range_of<int32_t>(start, delta, count, output);
  fill_range_of<int64_t>(start, delta, count, output);
}

}  // namespace ompipe::kernels
