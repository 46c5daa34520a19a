#include "ompipe/kernels/reduce.h"

#include <type_traits>

#include "reduce_simd.h"
#include "simd_kernels.h"

namespace ompipe::kernels {
namespace {

constexpr double kNsPerElement = 0.5;

// Elements in row-major order, one chain; integers in unsigned arithmetic, so that they wrap.
template <class T>
void reduce_tile(const void* raw, int, int64_t tile, std::byte*) {
  using Sum = std::conditional_t<std::is_same_v<T, float>, float, uint64_t>;
  const auto& a = *static_cast<const ReduceArguments*>(raw);
  const int64_t count = a.reduced.element_count, stride = a.reduced.strides[0][a.reduced.rank - 1];
  for_each_output_of_tile(a, tile, [&](int64_t to, int64_t from) {
    Sum sum = 0;
    for_each_run(a.reduced, 0, count, [&](const auto& offsets, int64_t run) {
      const T* x = static_cast<const T*>(a.x) + from + offsets[0];
      for (int64_t i = 0; i < run; ++i) sum += static_cast<Sum>(x[i * stride]);
    });
    T result = static_cast<T>(sum);
    if (a.op == ReduceOp::mean) {
      if constexpr (std::is_same_v<T, float>) {
        result = result / float(count);
      } else {
        result = count == 0 ? 0 : static_cast<T>(static_cast<int64_t>(sum) / count);
      }
    }
    static_cast<T*>(a.y)[to] = result;
  });
}

TiledCall::RunTile reduce_kernel(const ReduceArguments& a, Isa isa) {
  if (a.type == ElementType::i32) return reduce_tile<int32_t>;
  if (a.type == ElementType::i64) return reduce_tile<int64_t>;
  const bool rows = a.reduced.rank == 1 && a.reduced.inner_contiguous(0);
  return rows ? simd_kernels(isa).reduce_rows : reduce_tile<float>;
}

}  // namespace

std::optional<ReduceArguments> make_reduce(ReduceOp op, ElementType type, const Layout& input,
                                           std::span<const int64_t> axes) {
  std::array<bool, kMaxRank> is_reduced = {};
  if (axes.empty()) is_reduced.fill(true);
  for (const int64_t axis : axes) {
    const int64_t at = axis < 0 ? axis + input.rank : axis;
    if (at < 0 || at >= input.rank || is_reduced[at]) return std::nullopt;
    is_reduced[at] = true;
  }
  Layout kept, reduced;
  for (int i = 0; i < input.rank; ++i) {
    Layout& side = is_reduced[i] ? reduced : kept;
    side.dims[side.rank] = input.dims[i];
    side.strides[side.rank++] = input.strides[i];
  }
  const Layout output = *contiguous_layout({kept.dims.data(), size_t(kept.rank)});
  ReduceArguments arguments;
  arguments.op = op;
  arguments.type = type;
  arguments.kept = *make_loop(output, {&kept, 1});
  arguments.reduced = *make_loop(reduced, {});
  return arguments;
}

TiledCall reduce_call(const ReduceArguments& a, Isa isa) {
  const int64_t per_tile = reduce_outputs_per_tile(a);
  const double elements = double(a.kept.element_count) * double(a.reduced.element_count);
  return one_phase(&a, reduce_kernel(a, isa), (a.kept.element_count + per_tile - 1) / per_tile,
                   kNsPerElement * elements);
}

}  // namespace ompipe::kernels
