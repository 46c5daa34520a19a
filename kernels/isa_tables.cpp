// Which tables of kernels this build has for each instruction set.
#include "matmul_kernels.h"
#include "simd_kernels.h"

namespace ompipe::kernels {

#if defined(__x86_64__)

const MatMulKernels& matmul_table(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return kMatMulAvx2;
    case Isa::avx_vnni:
      return kMatMulAvxVnni;
    case Isa::avx512:
      return kMatMulAvx512;
    case Isa::avx512_vnni:
      return kMatMulAvx512Vnni;
    default:
      return kMatMulScalar;
  }
}

const SimdKernels& simd_kernels(Isa isa) { return isa == Isa::scalar ? kSimdKernelsScalar : kSimdKernelsAvx2; }

#elif defined(__aarch64__)

const MatMulKernels& matmul_table(Isa isa) {
  return isa == Isa::scalar ? kMatMulScalar : isa == Isa::neon ? kMatMulNeon : kMatMulNeonDotprod;
}

const SimdKernels& simd_kernels(Isa isa) { return isa == Isa::scalar ? kSimdKernelsScalar : kSimdKernelsNeon; }

#else

const MatMulKernels& matmul_table(Isa) { return kMatMulScalar; }
const SimdKernels& simd_kernels(Isa) { return kSimdKernelsScalar; }

#endif

}  // namespace ompipe::kernels
