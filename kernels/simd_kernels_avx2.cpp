#include "simd_table.h"
#include "vector8_avx2.h"

namespace ompipe::kernels {
constinit const SimdKernels kSimdKernelsAvx2 = make_simd_kernels<Vector8Avx2>();
}  // namespace ompipe::kernels
