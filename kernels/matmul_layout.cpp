#include <charconv>
#include <cstdint>

#include "matmul_kernels.h"
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
  }
  return "";
}

}  // namespace

const char* unsupported_reason(const MatMulSpec& spec) {
  if (spec.k < 1 || spec.n < 1) return "K and N must be at least 1";
  if (spec.k > kMaxDim || spec.n > kMaxDim || spec.k * spec.n > kMaxElements) return "K x N is too large";
  if (spec.format != WeightFormat::nbits) return nullptr;
  if (spec.bits != 2 && spec.bits != 4 && spec.bits != 8) return "bits must be 2, 4 or 8";
  if (spec.bits != 4) return "no kernel takes weights of 2 or 8 bits";
  if (spec.zero_points == ZeroPoints::f32 || spec.zero_points == ZeroPoints::f16) {
    return "no kernel takes zero points with fractions";
  }
  if (spec.block != 16 && spec.block != 32 && spec.block != 64 && spec.block != 128 && spec.block != 256) {
    return "block_size must be 16, 32, 64, 128 or 256";
  }
  if (spec.accuracy_level != 0 && spec.accuracy_level != 4) return "accuracy_level must be 0 or 4";
  return nullptr;
}

GroupRecord group_record(const MatMulSpec& spec) {
  GroupRecord record;
  record.zero_points_at = kGroupColumns * (spec.scale_type == ScaleType::f16 ? 2 : 4);
  record.nibbles_at = record.zero_points_at + (spec.zero_points != ZeroPoints::none ? kGroupColumns : 0);
  record.bytes = record.nibbles_at + kGroupColumns * spec.block / 2;
  return record;
}

std::optional<PackedLayout> make_layout(const MatMulSpec& spec, Isa isa) {
  if (unsupported_reason(spec) != nullptr || !isa_available(isa)) return std::nullopt;
  PackedLayout layout;
  layout.spec = spec;
  layout.isa = isa;
  if (spec.format == WeightFormat::nbits) {
    const int64_t blocks = blocks_of(spec);
    layout.source_bytes = spec.n * blocks * (spec.block / 2);
    layout.scales_bytes = spec.n * blocks * (spec.scale_type == ScaleType::f16 ? 2 : 4);
    layout.zero_points_bytes = spec.zero_points != ZeroPoints::none ? spec.n * divide_up(blocks, 2) : 0;
    layout.packed_bytes = divide_up(spec.n, kGroupColumns) * blocks * group_record(spec).bytes;
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
    key << spec.bits << "/b" << spec.block << (spec.scale_type == ScaleType::f16 ? "/s16" : "/s32");
    key << (spec.zero_points != ZeroPoints::none ? "/zp" : "/zp8") << "/groups" << kGroupColumns;
  } else {
    key << (spec.trans_b ? "/nk" : "/kn") << "/panels" << kPanelColumns;
  }
  return key << "/k" << spec.k << "/n" << spec.n << "/v" << kLayoutVersion;
}

std::string layout_key(const PackedLayout& layout) { return std::string(layout_key_text(layout).view()); }

}  // namespace ompipe::kernels
