#include "c_layout.h"

#include <string_view>

using namespace ompipe::kernels;

// Structures grow by whole fields only: none may begin in padding that an older program left undefined.
static_assert(sizeof(ompipe_matmul_weight) == 64 && sizeof(ompipe_matmul_sizes) == 48 &&
              sizeof(ompipe_matmul_source) == 48);

namespace ompipe::kernels::c {

const PackedLayout* packed_layout(const ompipe_matmul_layout* layout) {
  if (layout == nullptr || !is_aligned(layout, alignof(ompipe_matmul_layout))) return nullptr;
  return layout->mark == ompipe_matmul_layout::kMark ? &layout->packed : nullptr;
}

namespace {

constexpr size_t kWeightBytes10 = 56;  // in version 1.0

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
    case OMPIPE_WEIGHT_U8:
      into = WeightFormat::u8;
      return true;
    case OMPIPE_WEIGHT_S8:
      into = WeightFormat::s8;
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
  switch (spec.format) {
    case WeightFormat::nbits:
      return int64_t{spec.block} * spec.bits / 8;
    case WeightFormat::f32:
      return 4;
    case WeightFormat::f16:
    case WeightFormat::bf16:
      return 2;
    case WeightFormat::u8:
    case WeightFormat::s8:
      return 1;
  }
  return 1;
}

// The tuning of a weight's layout: the one given, or this CPU's.
ompipe_status read_tuning(const ompipe_matmul_weight& weight, Tuning& tuning, const char** reason) {
  tuning = tuning_of_this_cpu();
  if (weight.tuning == nullptr) return done(reason);
  if (weight.format == OMPIPE_WEIGHT_U8 || weight.format == OMPIPE_WEIGHT_S8) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "products of int8 have no tuning");
  }
  const Tuning* const made = made_tuning(weight.tuning);
  if (made == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, kNoTuning);
  tuning = *made;
  return done(reason);
}

ompipe_status check_range(const PackedLayout& layout, const ompipe_matmul_source& source, const char** reason) {
  const int64_t unit = range_unit_bytes(layout.spec);
  if (source.begin < 0 || source.begin > source.end || source.end > layout.source_bytes) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "the range must lie in B: 0 <= begin <= end <= source_bytes");
  }
  if (source.begin % unit != 0 || source.end % unit != 0) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "a range begins and ends at multiples of range_unit_bytes");
  }
  return done(reason);
}

}  // namespace

ompipe_status read_source(const PackedLayout& layout, const ompipe_matmul_source* from, ompipe_matmul_source& source,
                          const char** reason) {
  if (from == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "the source is null");
  if (!read_struct(from, {}, source)) return fail(OMPIPE_UNKNOWN_FIELD, reason, kStruct);
  const ompipe_status status = check_range(layout, source, reason);
  if (status != OMPIPE_OK) return status;
  if (source.range == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "the range's bytes are null");
  if ((source.scales != nullptr) != (layout.scales_bytes != 0)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "scales are given if, and only if, scales_bytes isn't 0");
  }
  if ((source.zero_points != nullptr) != (layout.zero_points_bytes != 0)) {
    return fail(OMPIPE_INVALID_ARGUMENT, reason, "zero points are given if, and only if, zero_points_bytes isn't 0");
  }
  return done(reason);
}

PackSources pack_sources(const ompipe_matmul_source& source) {
  return {static_cast<const std::byte*>(source.range), static_cast<const std::byte*>(source.scales),
          static_cast<const std::byte*>(source.zero_points)};
}

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
  if (!c::read_struct(weight, {c::kWeightBytes10}, read)) return c::fail(OMPIPE_UNKNOWN_FIELD, reason, c::kStruct);
  MatMulSpec spec;
  status = c::read_weight(read, spec, reason);
  if (status != OMPIPE_OK) return status;
  Tuning tuning;
  status = c::read_tuning(read, tuning, reason);
  Isa isa = Isa::scalar;
  if (status == OMPIPE_OK) status = c::read_available_isa(read.isa, isa, reason);
  if (status != OMPIPE_OK) return status;
  if (const char* const text = unsupported_reason(spec)) return c::fail(OMPIPE_UNSUPPORTED, reason, text);
  ::new (layout) ompipe_matmul_layout{ompipe_matmul_layout::kMark, *make_layout(spec, isa, tuning)};
  return c::done(reason);
}

ompipe_status ompipe_matmul_layout_sizes(const ompipe_matmul_layout* layout, ompipe_matmul_sizes* sizes) noexcept {
  const PackedLayout* const packed = c::packed_layout(layout);
  if (packed == nullptr || sizes == nullptr) return OMPIPE_INVALID_ARGUMENT;
  ompipe_matmul_sizes all;
  if (!c::read_struct(sizes, {}, all)) return OMPIPE_UNKNOWN_FIELD;
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
  if (packed == nullptr || (text == nullptr && text_bytes > 0)) return OMPIPE_INVALID_ARGUMENT;
  const KeyText key = layout_key_text(*packed);
  const std::string_view view = key.view();
  if (needed_bytes != nullptr) *needed_bytes = view.size() + 1;
  if (text_bytes <= view.size()) return OMPIPE_TOO_SMALL;
  std::memcpy(text, view.data(), view.size());
  text[view.size()] = '\0';
  return OMPIPE_OK;
}

ompipe_status ompipe_matmul_pack(const ompipe_matmul_layout* layout, const ompipe_matmul_source* source, void* packed,
                                 int64_t packed_bytes, const char** reason) noexcept {
  const PackedLayout* const to = c::packed_layout(layout);
  if (to == nullptr) return c::fail(OMPIPE_INVALID_ARGUMENT, reason, c::kNoLayout);
  if (packed_bytes < to->packed_bytes) return c::fail(OMPIPE_TOO_SMALL, reason, "packed is below packed_bytes");
  ompipe_status status = c::check_packed(packed, reason);
  ompipe_matmul_source read;
  if (status == OMPIPE_OK) status = c::read_source(*to, source, read, reason);
  if (status != OMPIPE_OK) return status;
  pack_range(*to, c::pack_sources(read), read.begin, read.end, static_cast<std::byte*>(packed));
  return OMPIPE_OK;
}
