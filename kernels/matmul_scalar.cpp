// The matrix kernels for the scalar ISA.
#include "matmul_table.h"
#include "vec_scalar.h"

namespace ompipe::kernels {
constinit const MatMulKernels kMatMulScalar = whole_matmul_kernels<VecScalar>();
}  // namespace ompipe::kernels
