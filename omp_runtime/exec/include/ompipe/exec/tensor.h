// Tensors at run time: a strided view whose shape is inline, and a view that is held together with its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ompipe/exec/owner.h"
#include "ompipe/kernels/strided.h"
#include "ompipe/model/types.h"

namespace ompipe::exec {

// A view of elements in somebody's memory. Dimensions and strides (in elements) are inline, so a copy never allocates.
// The view owns nothing: inside the exec layer the frame guarantees its bytes; every interface hands out a HeldTensor
// instead. A plain value; any thread.
struct Tensor {
  model::DType dtype = model::DType::undefined;
  kernels::Layout layout;
  std::byte* data = nullptr;  // of element [0, ..., 0]; constants are never written through it

  int rank() const { return layout.rank; }
  std::span<const int64_t> shape() const { return {layout.dims.data(), size_t(layout.rank)}; }
  // The size of a dimension; negative axes count from the last.
  int64_t dim(int axis) const { return layout.dims[size_t(axis < 0 ? axis + layout.rank : axis)]; }
  int64_t elements() const { return layout.element_count(); }
  uint64_t bytes() const { return uint64_t(elements()) * model::dtype_bytes(dtype); }  // of the elements, dense
  bool contiguous() const { return layout.is_contiguous(); }

  template <class T>
  const T* read() const {
    return reinterpret_cast<const T*>(data);
  }
  template <class T>
  T* write() const {
    return reinterpret_cast<T*>(data);
  }
};

// A row-major view of `shape` at `data`. The shape has at most kernels::kMaxRank dimensions, none negative.
Tensor make_tensor(model::DType dtype, std::span<const int64_t> shape, std::byte* data);
// The same of bytes that nobody may write.
Tensor make_constant(model::DType dtype, std::span<const int64_t> shape, const void* data);

std::string shape_text(std::span<const int64_t> shape);

// The elements of an integer or boolean tensor, one at a time, at a row-major index of a contiguous view.
int64_t int_at(const Tensor& tensor, int64_t index);

// Bytes and what keeps them alive. A copy shares the owner.
struct HeldBytes {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  Owner owner;
};

// A tensor that crosses an interface: the view is valid as long as the owner is held.
struct HeldTensor {
  Tensor view;
  Owner owner;
};

}  // namespace ompipe::exec
