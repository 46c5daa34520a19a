#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>

#include "matmul_integer_kernels.h"
#include "ompipe/kernels/matmul.h"

namespace ompipe::kernels {
namespace {

// Sizes stay far from overflow: K * N elements of 4 bytes, and padding.
constexpr int64_t kMaxDim = int64_t{1} << 30, kMaxElements = int64_t{1} << 40;

// Part of every layout key: a new packed form of the same description gets a new version.
constexpr int kLayoutVersion = 1;

const char* format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::nbits:
      return "nbits";
    case WeightFormat::f32:
      return "f32";
    case WeightFormat::f16:
      return "f16";
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::u8:
      return "u8";
    case WeightFormat::s8:
      return "s8";
  }
  return "";
}

const char* scales_name(const MatMulSpec& spec) {
  if (spec.scale_type == ScaleType::f16) return "/s16";
  return spec.half_scales ? "/s32to16" : "/s32";
}

const char* zero_points_name(const MatMulSpec& spec) {
  switch (spec.zero_points) {
    case ZeroPoints::none:
      return spec.bits == 2 ? "/zp2" : spec.bits == 4 ? "/zp8" : "/zp128";
    case ZeroPoints::packed:
      return "/zp";
    case ZeroPoints::f32:
      return "/zpf32";
    case ZeroPoints::f16:
      return "/zpf16";
  }
  return "";
}

}  // namespace

const char* unsupported_reason(const MatMulSpec& spec) {
  if (spec.k < 1 || spec.n < 1) return "K and N must be at least 1";
  if (spec.k > kMaxDim || spec.n > kMaxDim || spec.k * spec.n > kMaxElements) return "K x N is too large";
  if (is_bytes(spec) && spec.trans_b) return "weights of bytes must be [K, N]";
  if (spec.format != WeightFormat::nbits) return nullptr;
  if (spec.bits != 2 && spec.bits != 4 && spec.bits != 8) return "bits must be 2, 4 or 8";
  if (spec.half_scales && spec.scale_type == ScaleType::f16) return "half_scales is for float32 scales";
  if (spec.block != 16 && spec.block != 32 && spec.block != 64 && spec.block != 128 && spec.block != 256) {
    return "block_size must be 16, 32, 64, 128 or 256";
  }
  if (spec.accuracy_level != 0 && spec.accuracy_level != 4) return "accuracy_level must be 0 or 4";
  return nullptr;
}

namespace {

constexpr uint32_t kHalfNormal = 0x38800000, kHalfLargest = 0x477FE000;  // 2^-14 and 65504 as float32

// Whether all are float16 exactly, and none is zero, subnormal or infinite. Without a branch, for compilers to make
// vectors of it.
bool all_normal_halves(const float* scales, int64_t count) {
  uint32_t outside = 0, all = 0;  // of `outside` the sign bit counts
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(scales[i]), magnitude = bits & 0x7FFFFFFF;
    outside |= (magnitude - kHalfNormal) | (kHalfLargest - magnitude);
    all |= bits;
  }
  return (outside >> 31 | (all & 0x1FFF)) == 0;
}

bool is_half(float value) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7FFFFFFF;
  if (magnitude >= kHalfNormal) {
    return magnitude == 0x7F800000 || (magnitude <= kHalfLargest && (magnitude & 0x1FFF) == 0);
  }
  // A multiple of 2^-24, to which the sum rounds. Bits are compared: a processor that takes subnormal float32 for 0
  // would find them equal to 0.
  return std::bit_cast<uint32_t>((std::bit_cast<float>(magnitude) + 0.5f) - 0.5f) == magnitude;
}

}  // namespace

bool scales_fit_half(const float* scales, int64_t count) {
  constexpr int64_t kStep = 1024;
  for (int64_t begin = 0; begin < count; begin += kStep) {
    const int64_t step = std::min(kStep, count - begin);
    const float* const from = scales + begin;
    if (!all_normal_halves(from, step) && !std::all_of(from, from + step, is_half)) return false;
  }
  return true;
}

int64_t packed_zero_point_bytes(const MatMulSpec& spec) {
  switch (spec.zero_points) {
    case ZeroPoints::none:
      return 0;
    case ZeroPoints::packed:
      return 1;
    case ZeroPoints::f32:
      return 4;
    case ZeroPoints::f16:
      return 2;
  }
  return 0;
}

int64_t zero_point_row_bytes(const MatMulSpec& spec) {
  if (spec.zero_points == ZeroPoints::packed) return divide_up(blocks_of(spec) * spec.bits, 8);
  return blocks_of(spec) * packed_zero_point_bytes(spec);
}

GroupRecord group_record(const MatMulSpec& spec) {
  GroupRecord record;
  record.zero_points_at = kGroupColumns * packed_scale_bytes(spec);
  record.quants_at = record.zero_points_at + kGroupColumns * packed_zero_point_bytes(spec);
  record.bytes = record.quants_at + kGroupColumns * blob_bytes(spec);
  return record;
}

std::optional<PackedLayout> make_layout(const MatMulSpec& spec, Isa isa, const Tuning& tuning) {
  if (unsupported_reason(spec) != nullptr || tuning_error(tuning) != nullptr || !isa_available(isa)) {
    return std::nullopt;
  }
  PackedLayout layout;
  layout.spec = spec;
  layout.isa = isa;
  layout.tuning = tuning;
  if (spec.format == WeightFormat::nbits) {
    const int64_t blocks = blocks_of(spec);
    layout.source_bytes = spec.n * blocks * blob_bytes(spec);
    layout.scales_bytes = spec.n * blocks * (spec.scale_type == ScaleType::f16 ? 2 : 4);
    layout.zero_points_bytes = spec.n * zero_point_row_bytes(spec);
    layout.packed_bytes = divide_up(spec.n, kGroupColumns) * blocks * group_record(spec).bytes;
  } else if (is_bytes(spec)) {
    layout.source_bytes = spec.k * spec.n;
    layout.packed_bytes = divide_up(spec.n, kGroupColumns) * byte_units(spec) * kByteUnitBytes;
  } else {
    layout.source_bytes = spec.k * spec.n * (spec.format == WeightFormat::f32 ? 4 : 2);
    layout.packed_bytes = divide_up(spec.n, kPanelColumns) * kPanelColumns * spec.k * 4;
  }
  return layout;
}

KeyText& KeyText::operator<<(std::string_view part) {
  part = part.substr(0, chars.size() - size);
  size += part.copy(chars.data() + size, part.size());
  return *this;
}

KeyText& KeyText::operator<<(int64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return *this << std::string_view(digits.data(), end);
}

KeyText layout_key_text(const PackedLayout& layout) {
  const MatMulSpec& spec = layout.spec;
  KeyText key;
  key << format_name(spec.format);
  if (spec.format == WeightFormat::nbits) {
    key << spec.bits << "/b" << spec.block << scales_name(spec) << zero_points_name(spec) << "/groups" << kGroupColumns;
  } else if (is_bytes(spec)) {
    key << "/kn/groups" << kGroupColumns;
  } else {
    key << (spec.trans_b ? "/nk" : "/kn") << "/panels" << kPanelColumns;
  }
  return key << "/k" << spec.k << "/n" << spec.n << "/v" << kLayoutVersion;
}

std::string layout_key(const PackedLayout& layout) { return std::string(layout_key_text(layout).view()); }

}  // namespace ompipe::kernels
