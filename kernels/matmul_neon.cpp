// The matrix kernels for the neon ISA.
#include "matmul_table.h"
#include "vec_neon.h"

namespace ompipe::kernels {
constinit const MatMulKernels kMatMulNeon = whole_matmul_kernels<VecNeon>();
}  // namespace ompipe::kernels
