#include <cstdint>

#include "matmul_kernels.h"
#include "ompipe/kernels/matmul.h"

namespace ompipe::kernels {
namespace {

// Sizes stay far from overflow: K * N elements of 4 bytes, and padding.
constexpr int64_t kMaxDim = int64_t{1} << 30, kMaxElements = int64_t{1} << 40;

// Part of every layout key: a new packed form of the same description gets a new version.
constexpr int kLayoutVersion = 1;

std::string format_name(const MatMulSpec& spec) {
  switch (spec.format) {
    case WeightFormat::nbits:
      return "nbits" + std::to_string(spec.bits);
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

std::string layout_key(const PackedLayout& layout) {
  const MatMulSpec& spec = layout.spec;
  std::string key = format_name(spec);
  const std::string shape = "/k" + std::to_string(spec.k) + "/n" + std::to_string(spec.n);
  if (spec.format == WeightFormat::nbits) {
    key += "/b" + std::to_string(spec.block) + (spec.scale_type == ScaleType::f16 ? "/s16" : "/s32");
    key += spec.zero_points != ZeroPoints::none ? "/zp" : "/zp8";
    key += "/groups" + std::to_string(kGroupColumns);
  } else {
    key += spec.trans_b ? "/nk" : "/kn";
    key += "/panels" + std::to_string(kPanelColumns);
  }
  return key + shape + "/v" + std::to_string(kLayoutVersion);
}

}  // namespace ompipe::kernels
