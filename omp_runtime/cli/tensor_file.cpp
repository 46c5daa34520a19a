#include "ompipe/cli/tensor_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "ompipe/cli/small_file.h"

namespace ompipe::cli {

Result<exec::HeldTensor> make_owned_tensor(model::DType dtype, const model::Shape& shape, const std::string& subject) {
  constexpr size_t kAlignment = 64;
  if (shape.size() > size_t(kernels::kMaxRank)) {
    return Error{
        .kind = ErrorKind::usage, .phase = "input", .subject = subject, .reason = "has more than 8 dimensions"};
  }
  uint64_t bytes = model::dtype_bytes(dtype);
  bool fits = true;
  for (const int64_t dim : shape) fits = fits && !__builtin_mul_overflow(bytes, uint64_t(dim), &bytes);
  const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = fits && bytes <= (UINT64_MAX >> 1) ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (!memory) {
    return Error{.kind = ErrorKind::cannot_fit,
                 .phase = "input",
                 .subject = subject,
                 .reason = "no memory for " + std::string(model::dtype_name(dtype)) + model::shape_text(shape)};
  }
  std::shared_ptr<void> owner(memory, std::free);
  std::memset(memory, 0, rounded);
  return exec::HeldTensor{exec::make_tensor(dtype, shape, static_cast<std::byte*>(memory)), owner};
}

std::vector<std::byte> dense_bytes(const exec::Tensor& tensor) {
  const size_t element = model::dtype_bytes(tensor.dtype);
  const auto count = size_t(tensor.elements());
  std::vector<std::byte> bytes(count * element);
  if (tensor.contiguous()) {
    if (!bytes.empty()) std::memcpy(bytes.data(), tensor.data, bytes.size());
    return bytes;
  }
  kernels::Extents index = {};
  for (size_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int axis = 0; axis < tensor.rank(); ++axis)
      offset += index[size_t(axis)] * tensor.layout.strides[size_t(axis)];
    std::memcpy(bytes.data() + i * element, tensor.data + offset * int64_t(element), element);
    for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
      if (++index[size_t(axis)] < tensor.dim(axis)) break;
      index[size_t(axis)] = 0;
    }
  }
  return bytes;
}

Result<exec::HeldTensor> read_tensor_file(const std::string& path) {
  const bool npy = path.ends_with(".npy");
  if (!npy && !path.ends_with(".pb")) {
    return Error{.kind = ErrorKind::usage, .phase = "input", .reason = "is neither .npy nor .pb", .file = path};
  }
  const Result<std::vector<std::byte>> bytes = read_small_file(path);
  if (!bytes) return bytes.error();
  return npy ? parse_npy(*bytes, path) : parse_tensor_proto(*bytes, path);
}

}  // namespace ompipe::cli
