#include <optional>

#include "c_layout.h"
#include "ompipe/kernels/portable.h"

using namespace ompipe::kernels;

static_assert(sizeof(ompipe_matmul_product) == 144);

namespace ompipe::kernels::c {
namespace {

constexpr size_t kProductBytes10 = 120;  // in version 1.0

constexpr const char* kElements = "a, out or c isn't aligned as its elements are";

ElementType element_type(const ompipe_matmul_product& product) {
  return product.elements == OMPIPE_ELEMENTS_F16 ? ElementType::f16 : ElementType::f32;
}

// `count` rows of `columns` elements, `stride` apart. No rows may lie anywhere.
ompipe_status check_rows(const void* rows, int64_t count, ElementType type, int64_t columns, int64_t stride,
                         const char** reason) {
  if (count > 0 && rows == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "a or out is null");
  if (count > 0 && !is_aligned(rows, element_bytes(type))) return fail(OMPIPE_MISALIGNED, reason, kElements);
  if (stride < columns || stride > kMaxStride) return fail(OMPIPE_INVALID_ARGUMENT, reason, kStrides);
  return done(reason);
}

ompipe_status check_addend(const ompipe_matmul_product& product, const char** reason) {
  if (product.c == nullptr) return done(reason);
  if (product.m > 0 && !is_aligned(product.c, element_bytes(element_type(product)))) {
    return fail(OMPIPE_MISALIGNED, reason, kElements);
  }
  if (product.c_row_stride < 0 || product.c_row_stride > kMaxStride || product.c_column_stride < 0 ||
      product.c_column_stride > kMaxStride) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "strides of c must be 0 to 2^31");
  }
  return done(reason);
}

// Copies the product, with what sizes depend on checked. `layout`: its layout.
ompipe_status read_product(const ompipe_matmul_product* from, ompipe_matmul_product& product,
                           const PackedLayout*& layout, const char** reason) {
  if (from == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "the product is null");
  if (!read_struct(from, {kProductBytes10}, product)) return fail(OMPIPE_UNKNOWN_FIELD, reason, kStruct);
  layout = packed_layout(product.layout);
  if (layout == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, kNoLayout);
  if (is_bytes(layout->spec)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "OMPIPE_WEIGHT_U8 and S8 need ompipe_matmul_integer_call_init");
  }
  if (product.m < 0 || product.m > kMaxRows) return fail(OMPIPE_INVALID_ARGUMENT, reason, kRows);
  if (product.elements != OMPIPE_ELEMENTS_F32 && product.elements != OMPIPE_ELEMENTS_F16) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "elements must be one of OMPIPE_ELEMENTS_...");
  }
  if (product.way < OMPIPE_PRODUCT_PACKED || product.way > OMPIPE_PRODUCT_FUSED) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "way must be one of OMPIPE_PRODUCT_...");
  }
  return done(reason);
}

// Where B lies, and where it goes: only what the product's way takes is given.
ompipe_status read_weight_bytes(const ompipe_matmul_product& product, const PackedLayout& layout,
                                ompipe_matmul_source& source, const char** reason) {
  if (product.way != OMPIPE_PRODUCT_FUSED && (product.pack_into != nullptr || product.pack_into_bytes != 0)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "pack_into belongs to OMPIPE_PRODUCT_FUSED");
  }
  if (product.way == OMPIPE_PRODUCT_PACKED) {
    if (product.source == nullptr) return check_packed(product.packed, reason);
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "source belongs to OMPIPE_PRODUCT_PORTABLE and FUSED");
  }
  if (product.packed != nullptr) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "packed belongs to OMPIPE_PRODUCT_PACKED");
  }
  const ompipe_status status = read_source(layout, product.source, source, reason);
  if (status != OMPIPE_OK) return status;
  if (source.begin != 0 || source.end != layout.source_bytes) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "the source of a product is the whole of B: 0 to source_bytes");
  }
  if (product.way != OMPIPE_PRODUCT_FUSED) return done(reason);
  if (product.pack_into_bytes < layout.packed_bytes) {
    return fail(OMPIPE_TOO_SMALL, reason, "pack_into is below packed_bytes");
  }
  return check_packed(product.pack_into, reason);
}

int64_t shared_bytes_of(const PackedLayout& layout, const ompipe_matmul_product& product) {
  const auto shared = product.way == OMPIPE_PRODUCT_PACKED ? shared_scratch_bytes : portable_shared_scratch_bytes;
  return shared(layout, product.m, element_type(product));
}

// The call of the product's way.
TiledCall bind(int32_t way, const PortableArgs& args) {
  if (way == OMPIPE_PRODUCT_PACKED) return matmul_call(args.product);
  return *(way == OMPIPE_PRODUCT_FUSED ? fused_call : portable_call)(args);  // refuse bytes only, as read_product does
}

}  // namespace
}  // namespace ompipe::kernels::c

ompipe_status ompipe_matmul_scratch(const ompipe_matmul_product* product, int64_t* shared_bytes,
                                    int64_t* tile_bytes) noexcept {
  if (shared_bytes == nullptr || tile_bytes == nullptr) return OMPIPE_INVALID_ARGUMENT;
  ompipe_matmul_product read;
  PortableArgs args;
  const ompipe_status status = c::read_product(product, read, args.product.layout, nullptr);
  if (status != OMPIPE_OK) return status;
  args.product.type = c::element_type(read);
  args.product.m = read.m;
  *shared_bytes = c::shared_bytes_of(*args.product.layout, read);
  *tile_bytes = static_cast<int64_t>(c::bind(read.way, args).tile_scratch_bytes);
  return OMPIPE_OK;
}

ompipe_status ompipe_matmul_call_init(ompipe_call* call, size_t call_bytes, const ompipe_matmul_product* product,
                                      const char** reason) noexcept {
  ompipe_status status = c::check_place(call, call_bytes, reason);
  if (status != OMPIPE_OK) return status;
  ompipe_matmul_product read;
  const PackedLayout* layout = nullptr;
  status = c::read_product(product, read, layout, reason);
  if (status != OMPIPE_OK) return status;
  const ElementType type = c::element_type(read);
  ompipe_matmul_source source = {};
  status = c::read_weight_bytes(read, *layout, source, reason);
  if (status == OMPIPE_OK) status = c::check_rows(read.a, read.m, type, layout->spec.k, read.lda, reason);
  if (status == OMPIPE_OK) status = c::check_rows(read.out, read.m, type, layout->spec.n, read.ldo, reason);
  if (status == OMPIPE_OK) status = c::check_addend(read, reason);
  if (status == OMPIPE_OK) {
    status = c::check_shared_scratch(read.shared_scratch, read.shared_scratch_bytes, c::shared_bytes_of(*layout, read),
                                     "shared_scratch is smaller than ompipe_matmul_scratch says", reason);
  }
  if (status != OMPIPE_OK) return status;
  PortableArgs args;
  args.product.type = type;
  args.product.layout = layout;
  args.product.packed = static_cast<const std::byte*>(read.packed);
  args.product.m = read.m;
  args.product.a = read.a;
  args.product.lda = read.lda;
  args.product.out = read.out;
  args.product.ldc = read.ldo;
  args.product.c = read.c;
  args.product.c_row_stride = read.c_row_stride;
  args.product.c_column_stride = read.c_column_stride;
  args.product.alpha = read.alpha;
  args.product.beta = read.beta;
  args.product.shared_scratch = static_cast<std::byte*>(read.shared_scratch);
  args.sources = c::pack_sources(source);
  args.packed = static_cast<std::byte*>(read.pack_into);
  c::make_call(call, args, [&](const PortableArgs& kept) { return c::bind(read.way, kept); });
  return c::done(reason);
}
