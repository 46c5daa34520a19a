// Normalisation over the last axis: RMS (SimplifiedLayerNormalization and its Skip form) and LayerNormalization.
#pragma once

#include <cstdint>

#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// SimplifiedLayerNormalization and com.microsoft::SkipSimplifiedLayerNormalization, all float32, rows contiguous:
// s = x (+ skip) (+ bias); y = s / sqrt(mean(s^2) + epsilon) * gain; sum, if wanted, receives s (the fourth output).
struct RmsNormArguments {
  const float* x = nullptr;     // [rows, columns]
  const float* skip = nullptr;  // [rows, columns], or null
  const float* bias = nullptr;  // [columns], or null
  const float* gain = nullptr;  // [columns]
  float* y = nullptr;           // [rows, columns]; may be x or skip if sum is neither
  float* sum = nullptr;         // [rows, columns], or null; may be x or skip
  int64_t rows = 0, columns = 0;
  float epsilon = 0;
};

// LayerNormalization: y = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * gain (+ bias), all float32.
struct LayerNormArguments {
  const float* x = nullptr;     // [rows, columns]
  const float* gain = nullptr;  // [columns]
  const float* bias = nullptr;  // [columns], or null
  float* y = nullptr;           // [rows, columns]; may be x
  int64_t rows = 0, columns = 0;
  float epsilon = 0;
};

// One phase; the arguments must outlive the call. Sums are float32 in the order of row_sums.h, the same bits for every
// ISA. Any thread; no errors.
TiledCall rms_norm_call(const RmsNormArguments& arguments, Isa isa);
TiledCall layer_norm_call(const LayerNormArguments& arguments, Isa isa);

}  // namespace ompipe::kernels
