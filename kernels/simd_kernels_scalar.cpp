#include "simd_table.h"
#include "vector8_scalar.h"

namespace ompipe::kernels {
constinit const SimdKernels kSimdKernelsScalar = make_simd_kernels<Vector8Scalar>();
}  // namespace ompipe::kernels
