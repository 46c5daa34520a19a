#include "c_layout.h"
#include "ompipe/kernels/matmul_integer.h"
#include "ompipe/kernels/quantize.h"

using namespace ompipe::kernels;

static_assert(sizeof(ompipe_matmul_integer_product) == 104 && sizeof(ompipe_dynamic_quantize) == 72);

namespace ompipe::kernels::c {
namespace {

// Sizes stay far from overflow.
constexpr int64_t kMaxCount = int64_t{1} << 40;

// Copies the product, with what sizes depend on checked. `layout`: its layout.
ompipe_status read_product(const ompipe_matmul_integer_product* from, ompipe_matmul_integer_product& product,
                           const PackedLayout*& layout, const char** reason) {
  if (from == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "the product is null");
  if (!read_struct(from, {}, product)) return fail(OMPIPE_UNKNOWN_FIELD, reason, kStruct);
  layout = packed_layout(product.layout);
  if (layout == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, kNoLayout);
  if (!is_bytes(layout->spec)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "the layout must be of OMPIPE_WEIGHT_U8 or S8");
  }
  if (product.m < 0 || product.m > kMaxRows) return fail(OMPIPE_INVALID_ARGUMENT, reason, kRows);
  return done(reason);
}

ompipe_status check_product(const ompipe_matmul_integer_product& product, const MatMulSpec& spec, const char** reason) {
  const ompipe_status status = check_packed(product.packed, reason);
  if (status != OMPIPE_OK) return status;
  if (product.m > 0 && (product.a == nullptr || product.out == nullptr)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "a or out is null");
  }
  if (product.m > 0 && !is_aligned(product.out, alignof(int32_t))) {
    return fail(OMPIPE_MISALIGNED, reason, "out must be aligned as int32");
  }
  if (product.lda < spec.k || product.lda > kMaxStride || product.ldo < spec.n || product.ldo > kMaxStride) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, kStrides);
  }
  if (product.b_zero_point_stride != 0 && product.b_zero_point_stride != 1) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "b_zero_point_stride is 0 or 1");
  }
  if (product.a_signed != 0 && product.a_signed != 1)
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "a_signed is 0 or 1");
  return done(reason);
}

// Copies the description, with what sizes depend on checked.
ompipe_status read_quantize(const ompipe_dynamic_quantize* from, ompipe_dynamic_quantize& quantize, Isa& isa,
                            const char** reason) {
  if (from == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "the description is null");
  if (!read_struct(from, {}, quantize) || quantize.unused != 0) return fail(OMPIPE_UNKNOWN_FIELD, reason, kStruct);
  if (quantize.count < 0 || quantize.count > kMaxCount) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "count must be 0 to 2^40");
  }
  return read_available_isa(quantize.isa, isa, reason);
}

ompipe_status check_quantize(const ompipe_dynamic_quantize& quantize, const char** reason) {
  const bool elements = quantize.count > 0;
  if ((elements && (quantize.x == nullptr || quantize.y == nullptr)) || quantize.scale == nullptr ||
      quantize.zero_point == nullptr) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "x, y, scale or zero_point is null");
  }
  if ((elements && !is_aligned(quantize.x, alignof(float))) || !is_aligned(quantize.scale, alignof(float))) {
    return fail(OMPIPE_MISALIGNED, reason, "x and scale must be aligned as float");
  }
  return done(reason);
}

}  // namespace
}  // namespace ompipe::kernels::c

ompipe_status ompipe_matmul_integer_scratch(const ompipe_matmul_integer_product* product, int64_t* shared_bytes,
                                            int64_t* tile_bytes) noexcept {
  if (shared_bytes == nullptr || tile_bytes == nullptr) return OMPIPE_INVALID_ARGUMENT;
  ompipe_matmul_integer_product read;
  MatMulIntegerArgs args;
  const ompipe_status status = c::read_product(product, read, args.layout, nullptr);
  if (status != OMPIPE_OK) return status;
  args.m = read.m;
  *shared_bytes = integer_scratch_bytes(*args.layout, read.m);
  *tile_bytes = static_cast<int64_t>(matmul_integer_call(args).tile_scratch_bytes);
  return OMPIPE_OK;
}

ompipe_status ompipe_matmul_integer_call_init(ompipe_call* call, size_t call_bytes,
                                              const ompipe_matmul_integer_product* product,
                                              const char** reason) noexcept {
  ompipe_status status = c::check_place(call, call_bytes, reason);
  if (status != OMPIPE_OK) return status;
  ompipe_matmul_integer_product read;
  MatMulIntegerArgs args;
  status = c::read_product(product, read, args.layout, reason);
  if (status == OMPIPE_OK) status = c::check_product(read, args.layout->spec, reason);
  if (status == OMPIPE_OK) {
    status = c::check_shared_scratch(read.shared_scratch, read.shared_scratch_bytes,
                                     integer_scratch_bytes(*args.layout, read.m),
                                     "shared_scratch is smaller than ompipe_matmul_integer_scratch says", reason);
  }
  if (status != OMPIPE_OK) return status;
  args.packed = static_cast<const std::byte*>(read.packed);
  args.m = read.m;
  args.a_signed = read.a_signed == 1;
  args.a = read.a;
  args.lda = read.lda;
  args.a_zero_point = read.a_zero_point;
  args.b_zero_points = read.b_zero_points;
  args.b_zero_point_stride = read.b_zero_point_stride;
  args.out = read.out;
  args.ldc = read.ldo;
  args.shared_scratch = static_cast<std::byte*>(read.shared_scratch);
  c::make_call(call, args, matmul_integer_call);
  return c::done(reason);
}

ompipe_status ompipe_dynamic_quantize_scratch(const ompipe_dynamic_quantize* quantize, int64_t* shared_bytes,
                                              int64_t* tile_bytes) noexcept {
  if (shared_bytes == nullptr || tile_bytes == nullptr) return OMPIPE_INVALID_ARGUMENT;
  ompipe_dynamic_quantize read;
  Isa isa;
  const ompipe_status status = c::read_quantize(quantize, read, isa, nullptr);
  if (status != OMPIPE_OK) return status;
  DynamicQuantizeArguments args;
  args.count = read.count;
  *shared_bytes = dynamic_quantize_scratch_bytes(read.count);
  *tile_bytes = static_cast<int64_t>(dynamic_quantize_call(args, isa).tile_scratch_bytes);
  return OMPIPE_OK;
}

ompipe_status ompipe_dynamic_quantize_call_init(ompipe_call* call, size_t call_bytes,
                                                const ompipe_dynamic_quantize* quantize, const char** reason) noexcept {
  ompipe_status status = c::check_place(call, call_bytes, reason);
  if (status != OMPIPE_OK) return status;
  ompipe_dynamic_quantize read;
  Isa isa;
  status = c::read_quantize(quantize, read, isa, reason);
  if (status == OMPIPE_OK) status = c::check_quantize(read, reason);
  if (status == OMPIPE_OK) {
    status = c::check_shared_scratch(read.shared_scratch, read.shared_scratch_bytes,
                                     dynamic_quantize_scratch_bytes(read.count),
                                     "shared_scratch is smaller than ompipe_dynamic_quantize_scratch says", reason);
  }
  if (status != OMPIPE_OK) return status;
  const DynamicQuantizeArguments args = {read.x,     read.count,      read.y,
                                         read.scale, read.zero_point, static_cast<float*>(read.shared_scratch)};
  c::make_call(call, args, [&](const DynamicQuantizeArguments& kept) { return dynamic_quantize_call(kept, isa); });
  return c::done(reason);
}
