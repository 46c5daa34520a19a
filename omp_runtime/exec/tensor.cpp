#include "ompipe/exec/tensor.h"

#include "ompipe/arenas/error.h"

namespace ompipe::exec {

using model::DType;

Tensor make_tensor(DType dtype, std::span<const int64_t> shape, std::byte* data) {
  const auto layout = kernels::contiguous_layout(shape);
  OMPIPE_CHECK(layout.has_value(), "more dimensions than kMaxRank");
  return {dtype, *layout, data};
}

Tensor make_constant(DType dtype, std::span<const int64_t> shape, const void* data) {
  return make_tensor(dtype, shape, static_cast<std::byte*>(const_cast<void*>(data)));
}

std::string shape_text(std::span<const int64_t> shape) {
  return model::shape_text(model::Shape(shape.begin(), shape.end()));
}

int64_t int_at(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DType::i64:
      return tensor.read<int64_t>()[index];
    case DType::u64:
      return int64_t(tensor.read<uint64_t>()[index]);
    case DType::i32:
      return tensor.read<int32_t>()[index];
    case DType::u32:
      return tensor.read<uint32_t>()[index];
    case DType::i16:
      return tensor.read<int16_t>()[index];
    case DType::u16:
      return tensor.read<uint16_t>()[index];
    case DType::i8:
      return tensor.read<int8_t>()[index];
    case DType::u8:
    case DType::boolean:
      return tensor.read<uint8_t>()[index];
    default:
      fail_check("an integer tensor", __FILE__, __LINE__, model::dtype_name(tensor.dtype));
  }
}

}  // namespace ompipe::exec
