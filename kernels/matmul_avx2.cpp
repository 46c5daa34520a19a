// The matrix kernels for the avx2 ISA.
#include "matmul_table.h"
#include "vec_avx2.h"

namespace ompipe::kernels {
constinit const MatMulKernels kMatMulAvx2 = whole_matmul_kernels<VecAvx2>();
}  // namespace ompipe::kernels
