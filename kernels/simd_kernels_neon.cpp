#include "simd_table.h"
#include "vector8_neon.h"

namespace ompipe::kernels {
constinit const SimdKernels kSimdKernelsNeon = make_simd_kernels<Vector8Neon>();
}  // namespace ompipe::kernels
