// What the C functions about layouts, products and tuning share: the opaque values and what reads them.
#pragma once

#include "c_call.h"
#include "matmul_kernels.h"
#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/tuning.h"

struct ompipe_matmul_layout {
  static constexpr uint64_t kMark = 0x6f6d706970656c61;
  uint64_t mark;
  ompipe::kernels::PackedLayout packed;
};
static_assert(std::is_trivially_destructible_v<ompipe_matmul_layout> &&
              std::is_trivially_copyable_v<ompipe_matmul_layout>);

struct ompipe_tuning {
  static constexpr uint64_t kMark = 0x6f6d706970657475;
  uint64_t mark;
  ompipe::kernels::Tuning tuning;
};
static_assert(std::is_trivially_destructible_v<ompipe_tuning> && std::is_trivially_copyable_v<ompipe_tuning>);

namespace ompipe::kernels::c {

// Sizes stay far from overflow.
inline constexpr int64_t kMaxRows = int64_t{1} << 30, kMaxStride = int64_t{1} << 31;

inline constexpr const char* kNoLayout = "the layout is null, or not made by ompipe_matmul_layout_init";
inline constexpr const char* kNoTuning = "the tuning is null, or not made by ompipe_tuning_init";
inline constexpr const char* kRows = "m must be 0 to 2^30";
inline constexpr const char* kStrides = "lda must be at least K, ldo at least N, and both at most 2^31";

// Null for what wasn't made.
const PackedLayout* packed_layout(const ompipe_matmul_layout* layout);
const Tuning* made_tuning(const ompipe_tuning* tuning);

// The caller's range of B, with the scales and zero points that the layout has.
ompipe_status read_source(const PackedLayout& layout, const ompipe_matmul_source* from, ompipe_matmul_source& source,
                          const char** reason);
PackSources pack_sources(const ompipe_matmul_source& source);

}  // namespace ompipe::kernels::c
