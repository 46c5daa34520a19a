#include "ompipe/kernels/strided.h"

#include <algorithm>

namespace ompipe::kernels {
namespace {

// Aligns `input` with the last dimensions of `output`; broadcast dimensions get stride 0.
bool broadcast_strides(const Layout& input, const Layout& output, Extents& strides) {
  if (input.rank > output.rank) return false;
  const int offset = output.rank - input.rank;
  strides = {};
  for (int i = 0; i < input.rank; ++i) {
    if (input.dims[i] == output.dims[offset + i]) {
      strides[offset + i] = input.strides[i];
    } else if (input.dims[i] != 1) {
      return false;
    }
  }
  return true;
}

// Whether dimension `inner` of every operand continues `outer`, so that both are one dimension.
bool merges(const StridedLoop& loop, int outer, int64_t inner_dim, const std::array<int64_t, kMaxOperands>& inner) {
  for (int operand = 0; operand < loop.operand_count; ++operand) {
    if (loop.strides[operand][outer] != inner[operand] * inner_dim) return false;
  }
  return true;
}

void append_dimension(StridedLoop& loop, int64_t dim, const std::array<int64_t, kMaxOperands>& strides) {
  const bool merged = loop.rank > 0 && merges(loop, loop.rank - 1, dim, strides);
  if (!merged) ++loop.rank;
  const int at = loop.rank - 1;
  loop.dims[at] = merged ? loop.dims[at] * dim : dim;
  for (int operand = 0; operand < loop.operand_count; ++operand) loop.strides[operand][at] = strides[operand];
}

}  // namespace

int64_t Layout::element_count() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= dims[i];
  return count;
}

bool Layout::is_contiguous() const {
  int64_t expected = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

std::optional<Layout> contiguous_layout(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) return std::nullopt;
  Layout layout;
  layout.rank = int(dims.size());
  int64_t stride = 1;
  for (int i = layout.rank - 1; i >= 0; --i) {
    layout.dims[i] = dims[i];
    layout.strides[i] = stride;
    stride *= dims[i];
  }
  return layout;
}

std::optional<Layout> broadcast_layout(std::span<const Layout> inputs) {
  int rank = 0;
  for (const Layout& input : inputs) rank = std::max(rank, input.rank);
  Extents dims;
  dims.fill(1);
  for (const Layout& input : inputs) {
    for (int i = 0; i < input.rank; ++i) {
      int64_t& dim = dims[rank - input.rank + i];
      if (dim == 1) {
        dim = input.dims[i];
      } else if (input.dims[i] != 1 && input.dims[i] != dim) {
        return std::nullopt;
      }
    }
  }
  return contiguous_layout({dims.data(), size_t(rank)});
}

std::optional<StridedLoop> make_loop(const Layout& output, std::span<const Layout> inputs) {
  if (inputs.size() >= kMaxOperands) return std::nullopt;
  std::array<Extents, kMaxOperands> strides = {};
  strides[0] = output.strides;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!broadcast_strides(inputs[i], output, strides[i + 1])) return std::nullopt;
  }
  StridedLoop loop;
  loop.rank = 0;
  loop.operand_count = int(inputs.size()) + 1;
  loop.element_count = output.element_count();
  for (int i = 0; i < output.rank; ++i) {
    if (output.dims[i] == 1) continue;
    std::array<int64_t, kMaxOperands> of_dimension = {};
    for (int operand = 0; operand < loop.operand_count; ++operand) of_dimension[operand] = strides[operand][i];
    append_dimension(loop, output.dims[i], of_dimension);
  }
  if (loop.rank == 0) {
    loop.rank = 1;
    loop.dims[0] = 1;
  }
  return loop;
}

}  // namespace ompipe::kernels
