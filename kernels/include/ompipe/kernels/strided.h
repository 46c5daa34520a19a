// Tensors as dims and strides, numpy's broadcasting, and loops over several of them with adjacent dimensions merged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace ompipe::kernels {

inline constexpr int kMaxRank = 8;
inline constexpr int kMaxOperands = 4;  // the output and three inputs

using Extents = std::array<int64_t, kMaxRank>;

// Dims and strides, the strides in elements; a stride may be 0 (broadcast) or negative (a Slice with a negative step).
// Only the first `rank` entries mean something.
struct Layout {
  int rank = 0;
  Extents dims = {}, strides = {};

  int64_t element_count() const;
  bool is_contiguous() const;  // row-major without gaps; dimensions of 1 may have any stride
};

// Row-major layout of `dims`; nothing for a rank above kMaxRank.
std::optional<Layout> contiguous_layout(std::span<const int64_t> dims);

// The dims that numpy's broadcasting gives `inputs`, as a contiguous layout; nothing if two of them do not match.
std::optional<Layout> broadcast_layout(std::span<const Layout> inputs);

// A loop over all elements of operand 0, in its row-major order; every operand has a stride (in elements) for each
// dimension. Dimensions of 1 are dropped and neighbours merged where every operand allows it, so `dims` often ends
// as one long run. rank >= 1.
struct StridedLoop {
  int rank = 1;
  int operand_count = 0;
  int64_t element_count = 0;
  Extents dims = {};
  std::array<Extents, kMaxOperands> strides = {};

  bool inner_contiguous(int operand) const { return strides[operand][rank - 1] == 1 || dims[rank - 1] == 1; }
};

// The loop over `output`, each input broadcast to it (aligned at the last dimension); nothing if an input does not
// broadcast to output's dims, or there are more than kMaxOperands - 1 inputs.
std::optional<StridedLoop> make_loop(const Layout& output, std::span<const Layout> inputs);

}  // namespace ompipe::kernels
