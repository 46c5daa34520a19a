#include <limits>

#include "c_call.h"
#include "ompipe/kernels/matmul.h"

using namespace ompipe::kernels;

struct ompipe_matmul_layout {
  static constexpr uint64_t kMark = 0x6f6d706970656c61;
  uint64_t mark;
  PackedLayout packed;
};
static_assert(std::is_trivially_destructible_v<ompipe_matmul_layout> &&
              std::is_trivially_copyable_v<ompipe_matmul_layout>);

// Structures grow by whole fields only: none may begin in padding that an older program left undefined.
static_assert(sizeof(ompipe_matmul_weight) == 56 && sizeof(ompipe_matmul_sizes) == 48 &&
              sizeof(ompipe_matmul_source) == 48 && sizeof(ompipe_matmul_product) == 120);

namespace ompipe::kernels::c {
namespace {

constexpr size_t kWeightBytes = 56, kSizesBytes = 48, kSourceBytes = 48, kProductBytes = 120;  // in version 1.0

// Sizes stay far from overflow.
constexpr int64_t kMaxRows = int64_t{1} << 30, kMaxStride = int64_t{1} << 31;

const PackedLayout* packed_layout(const ompipe_matmul_layout* layout) {
  if (layout == nullptr || !is_aligned(layout, alignof(ompipe_matmul_layout))) return nullptr;
  return layout->mark == ompipe_matmul_layout::kMark ? &layout->packed : nullptr;
}

constexpr const char* kNoLayout = "the layout is null, or not made by ompipe_matmul_layout_init";
constexpr const char* kStruct = "struct_bytes must be the structure's size, and what this version doesn't know zero";

bool read_format(int32_t from, WeightFormat& into) {
  switch (from) {
    case OMPIPE_WEIGHT_F32:
      into = WeightFormat::f32;
      return true;
    case OMPIPE_WEIGHT_F16:
      into = WeightFormat::f16;
      return true;
    case OMPIPE_WEIGHT_BF16:
      into = WeightFormat::bf16;
      return true;
    case OMPIPE_WEIGHT_NBITS:
      into = WeightFormat::nbits;
      return true;
    default:
      return false;
  }
}

bool read_zero_points(int32_t from, ZeroPoints& into) {
  switch (from) {
    case OMPIPE_ZERO_POINTS_NONE:
      into = ZeroPoints::none;
      return true;
    case OMPIPE_ZERO_POINTS_PACKED:
      into = ZeroPoints::packed;
      return true;
    case OMPIPE_ZERO_POINTS_F32:
      into = ZeroPoints::f32;
      return true;
    case OMPIPE_ZERO_POINTS_F16:
      into = ZeroPoints::f16;
      return true;
    default:
      return false;
  }
}

// The fields that belong to OMPIPE_WEIGHT_NBITS.
ompipe_status read_blocks(const ompipe_matmul_weight& weight, MatMulSpec& spec, const char** reason) {
  if (weight.trans_b != 0) return fail(OMPIPE_INVALID_ARGUMENT, reason, "trans_b belongs to the float formats");
  if (!read_zero_points(weight.zero_points, spec.zero_points)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "zero_points must be one of OMPIPE_ZERO_POINTS_...");
  }
  if (weight.scales < OMPIPE_SCALES_F32 || weight.scales > OMPIPE_SCALES_F32_AS_F16) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "scales must be one of OMPIPE_SCALES_...");
  }
  spec.block = weight.block;
  spec.accuracy_level = weight.accuracy_level;
  spec.bits = weight.bits;
  spec.scale_type = weight.scales == OMPIPE_SCALES_F16 ? ScaleType::f16 : ScaleType::f32;
  spec.half_scales = weight.scales == OMPIPE_SCALES_F32_AS_F16;
  return done(reason);
}

ompipe_status read_weight(const ompipe_matmul_weight& weight, MatMulSpec& spec, const char** reason) {
  if (!read_format(weight.format, spec.format)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "format must be one of OMPIPE_WEIGHT_...");
  }
  spec.k = weight.k;
  spec.n = weight.n;
  if (weight.format == OMPIPE_WEIGHT_NBITS) return read_blocks(weight, spec, reason);
  if (weight.trans_b != 0 && weight.trans_b != 1) return fail(OMPIPE_INVALID_ARGUMENT, reason, "trans_b is 0 or 1");
  if ((weight.bits | weight.block | weight.accuracy_level | weight.zero_points | weight.scales) != 0) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "bits and what follows it belong to OMPIPE_WEIGHT_NBITS");
  }
  spec.trans_b = weight.trans_b == 1;
  return done(reason);
}

int64_t range_unit_bytes(const MatMulSpec& spec) {
  if (spec.format == WeightFormat::nbits) return spec.block * spec.bits / 8;
  return spec.format == WeightFormat::f32 ? 4 : 2;
}

ompipe_status check_source(const PackedLayout& layout, const ompipe_matmul_source& source, const char** reason) {
  const int64_t unit = range_unit_bytes(layout.spec);
  if (source.begin < 0 || source.begin > source.end || source.end > layout.source_bytes) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "the range must lie in B: 0 <= begin <= end <= source_bytes");
  }
  if (source.begin % unit != 0 || source.end % unit != 0) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "a range begins and ends at multiples of range_unit_bytes");
  }
  if (source.range == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "the range's bytes are null");
  if ((source.scales != nullptr) != (layout.scales_bytes != 0)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "scales are given if, and only if, scales_bytes isn't 0");
  }
  if ((source.zero_points != nullptr) != (layout.zero_points_bytes != 0)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "zero points are given if, and only if, zero_points_bytes isn't 0");
  }
  return done(reason);
}

constexpr const char* kElements = "a, out or c isn't aligned as its elements are";

ElementType element_type(const ompipe_matmul_product& product) {
  return product.elements == OMPIPE_ELEMENTS_F16 ? ElementType::f16 : ElementType::f32;
}

// Rows of `columns` elements, `stride` apart.
ompipe_status check_rows(const void* rows, ElementType type, int64_t columns, int64_t stride, const char** reason) {
  if (rows == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "a or out is null");
  if (!is_aligned(rows, element_bytes(type))) return fail(OMPIPE_MISALIGNED, reason, kElements);
  if (stride < columns || stride > kMaxStride) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "lda must be at least K, ldo at least N, and both at most 2^31");
  }
  return done(reason);
}

ompipe_status check_addend(const ompipe_matmul_product& product, const char** reason) {
  if (product.c == nullptr) return done(reason);
  if (!is_aligned(product.c, element_bytes(element_type(product)))) return fail(OMPIPE_MISALIGNED, reason, kElements);
  if (product.c_row_stride < 0 || product.c_row_stride > kMaxStride || product.c_column_stride < 0 ||
      product.c_column_stride > kMaxStride) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "strides of c must be 0 to 2^31");
  }
  return done(reason);
}

// What sizes depend on.
ompipe_status check_shape(const ompipe_matmul_product& product, const char** reason) {
  if (product.m < 0 || product.m > kMaxRows) return fail(OMPIPE_INVALID_ARGUMENT, reason, "m must be 0 to 2^30");
  if (product.elements != OMPIPE_ELEMENTS_F32 && product.elements != OMPIPE_ELEMENTS_F16) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "elements must be one of OMPIPE_ELEMENTS_...");
  }
  if (product.unused != 0) return fail(OMPIPE_UNKNOWN_FIELD, reason, kStruct);
  return done(reason);
}

ompipe_status check_product(const ompipe_matmul_product& product, const PackedLayout& layout, const char** reason) {
  ompipe_status status = check_shape(product, reason);
  if (status != OMPIPE_OK) return status;
  if (product.packed == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "packed is null");
  if (!is_aligned(product.packed, kAlignmentBytes)) {
    return fail(OMPIPE_MISALIGNED, reason, "packed must start at a multiple of OMPIPE_ALIGNMENT");
  }
  const ElementType type = element_type(product);
  status = check_rows(product.a, type, layout.spec.k, product.lda, reason);
  if (status == OMPIPE_OK) status = check_rows(product.out, type, layout.spec.n, product.ldo, reason);
  if (status == OMPIPE_OK) status = check_addend(product, reason);
  if (status != OMPIPE_OK) return status;
  const int64_t shared = shared_scratch_bytes(layout, product.m, type);
  if (shared == 0) return done(reason);
  if (product.shared_scratch == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "shared_scratch is null");
  if (product.shared_scratch_bytes < shared) {
    return fail(OMPIPE_TOO_SMALL, reason, "shared_scratch is smaller than ompipe_matmul_scratch says");
  }
  if (!is_aligned(product.shared_scratch, kAlignmentBytes)) {
    return fail(OMPIPE_MISALIGNED, reason, "shared_scratch must start at a multiple of OMPIPE_ALIGNMENT");
  }
  return done(reason);
}

}  // namespace
}  // namespace ompipe::kernels::c

int32_t ompipe_scales_fit_f16(const float* scales, int64_t count) noexcept {
  return scales != nullptr && count >= 0 && scales_fit_half(scales, count);
}

ompipe_size ompipe_matmul_layout_size(void) noexcept {
  return {sizeof(ompipe_matmul_layout), alignof(ompipe_matmul_layout)};
}

ompipe_status ompipe_matmul_layout_init(ompipe_matmul_layout* layout, size_t layout_bytes,
                                        const ompipe_matmul_weight* weight, const char** reason) noexcept {
  ompipe_status status = c::check_place(layout, layout_bytes, reason);
  if (status != OMPIPE_OK) return status;
  if (weight == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "the weight is null");
  ompipe_matmul_weight read;
  if (!c::read_struct(weight, c::kWeightBytes, read)) return c::fail(OMPIPE_UNKNOWN_FIELD, reason, c::kStruct);
  MatMulSpec spec;
  status = c::read_weight(read, spec, reason);
  if (status != OMPIPE_OK) return status;
  Isa isa;
  if (!c::read_isa(read.isa, isa)) {
    return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "isa must be one of OMPIPE_ISA_...");
  }
  if (const char* const text = unsupported_reason(spec)) return c::fail(OMPIPE_UNSUPPORTED, reason, text);
  const std::optional<PackedLayout> made = make_layout(spec, isa);
  if (!made) return c::fail(OMPIPE_ISA_UNAVAILABLE, reason, ompipe_status_text(OMPIPE_ISA_UNAVAILABLE));
  ::new (layout) ompipe_matmul_layout{ompipe_matmul_layout::kMark, *made};
  return c::done(reason);
}

ompipe_status ompipe_matmul_layout_sizes(const ompipe_matmul_layout* layout, ompipe_matmul_sizes* sizes) noexcept {
  const PackedLayout* const packed = c::packed_layout(layout);
  if (packed == nullptr || sizes == nullptr) return OMPIPE_INVALID_ARGUMENT;
  ompipe_matmul_sizes all;
  if (!c::read_struct(sizes, c::kSizesBytes, all)) return OMPIPE_UNKNOWN_FIELD;
  all.source_bytes = packed->source_bytes;
  all.range_unit_bytes = c::range_unit_bytes(packed->spec);
  all.scales_bytes = packed->scales_bytes;
  all.zero_points_bytes = packed->zero_points_bytes;
  all.packed_bytes = packed->packed_bytes;
  std::memcpy(sizes, &all, std::min(all.struct_bytes, sizeof all));
  return OMPIPE_OK;
}

ompipe_isa ompipe_matmul_layout_isa(const ompipe_matmul_layout* layout) noexcept {
  const PackedLayout* const packed = c::packed_layout(layout);
  return packed != nullptr ? c::c_isa(packed->isa) : OMPIPE_ISA_BEST;
}

ompipe_status ompipe_matmul_layout_key(const ompipe_matmul_layout* layout, char* text, size_t text_bytes,
                                       size_t* needed_bytes) noexcept {
  const PackedLayout* const packed = c::packed_layout(layout);
  if (packed == nullptr) return OMPIPE_INVALID_ARGUMENT;
  const KeyText key = layout_key_text(*packed);
  const std::string_view view = key.view();
  if (needed_bytes != nullptr) *needed_bytes = view.size() + 1;
  if (text_bytes <= view.size()) return OMPIPE_TOO_SMALL;
  if (text == nullptr) return OMPIPE_INVALID_ARGUMENT;
  std::memcpy(text, view.data(), view.size());
  text[view.size()] = '\0';
  return OMPIPE_OK;
}

ompipe_status ompipe_matmul_pack(const ompipe_matmul_layout* layout, const ompipe_matmul_source* source, void* packed,
                                 int64_t packed_bytes, const char** reason) noexcept {
  const PackedLayout* const to = c::packed_layout(layout);
  if (to == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, c::kNoLayout);
  if (source == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "the source is null");
  if (packed == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "packed is null");
  ompipe_matmul_source read;
  if (!c::read_struct(source, c::kSourceBytes, read)) return c::fail(OMPIPE_UNKNOWN_FIELD, reason, c::kStruct);
  if (packed_bytes < to->packed_bytes) return c::fail(OMPIPE_TOO_SMALL, reason, "packed is below packed_bytes");
  if (!c::is_aligned(packed, kAlignmentBytes)) {
    return c::fail(OMPIPE_MISALIGNED, reason, "packed must start at a multiple of OMPIPE_ALIGNMENT");
  }
  const ompipe_status status = c::check_source(*to, read, reason);
  if (status != OMPIPE_OK) return status;
  const PackSources sources = {static_cast<const std::byte*>(read.range), static_cast<const std::byte*>(read.scales),
                               static_cast<const std::byte*>(read.zero_points)};
  pack_range(*to, sources, read.begin, read.end, static_cast<std::byte*>(packed));
  return OMPIPE_OK;
}

ompipe_status ompipe_matmul_scratch(const ompipe_matmul_product* product, int64_t* shared_bytes,
                                    int64_t* tile_bytes) noexcept {
  if (product == nullptr || shared_bytes == nullptr || tile_bytes == nullptr) return OMPIPE_INVALID_ARGUMENT;
  ompipe_matmul_product read;
  if (!c::read_struct(product, c::kProductBytes, read)) return OMPIPE_UNKNOWN_FIELD;
  const PackedLayout* const packed = c::packed_layout(read.layout);
  if (packed == nullptr) return OMPIPE_INVALID_ARGUMENT;
  const ompipe_status status = c::check_shape(read, nullptr);
  if (status != OMPIPE_OK) return status;
  MatMulArgs args;
  args.type = c::element_type(read);
  args.layout = packed;
  args.m = read.m;
  *shared_bytes = shared_scratch_bytes(*packed, read.m, args.type);
  *tile_bytes = static_cast<int64_t>(matmul_call(args).tile_scratch_bytes);
  return OMPIPE_OK;
}

ompipe_status ompipe_matmul_call_init(ompipe_call* call, size_t call_bytes, const ompipe_matmul_product* product,
                                      const char** reason) noexcept {
  ompipe_status status = c::check_place(call, call_bytes, reason);
  if (status != OMPIPE_OK) return status;
  if (product == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, "the product is null");
  ompipe_matmul_product read;
  if (!c::read_struct(product, c::kProductBytes, read)) return c::fail(OMPIPE_UNKNOWN_FIELD, reason, c::kStruct);
  const PackedLayout* const layout = c::packed_layout(read.layout);
  if (layout == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, c::kNoLayout);
  status = c::check_product(read, *layout, reason);
  if (status != OMPIPE_OK) return status;
  MatMulArgs args;
  args.type = c::element_type(read);
  args.layout = layout;
  args.packed = static_cast<const std::byte*>(read.packed);
  args.m = read.m;
  args.a = read.a;
  args.lda = read.lda;
  args.out = read.out;
  args.ldc = read.ldo;
  args.c = read.c;
  args.c_row_stride = read.c_row_stride;
  args.c_column_stride = read.c_column_stride;
  args.alpha = read.alpha;
  args.beta = read.beta;
  args.shared_scratch = static_cast<std::byte*>(read.shared_scratch);
  c::make_call(call, args, matmul_call);
  return c::done(reason);
}
