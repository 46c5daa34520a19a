// The products with packed weights for AVX-512; packing weights and quantising are left to avx2.
#include "matmul_floats_impl.h"
#include "matmul_integer_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "nbits_float_impl.h"
#include "portable_strip_impl.h"
#include "vec_avx2.h"
#include "vec_avx512.h"

namespace ompipe::kernels {

const MatMulKernels kMatMulAvx512 = {
    .prepare_floats = prepare_floats<VecAvx2, VecAvx512::kFloatRows>,
    .floats_tile = floats_tile<VecAvx512>,
    .nbits_float_tile = nbits_float_tile<VecAvx512>,
    .nbits_int_tile = nbits_int_tile<VecAvx512>,
    .multiply_strip = multiply_strip<VecAvx512>,
    .write_strip = write_strip<VecAvx512>,
    .integer_tile = integer_tile<VecAvx512>,
};

}  // namespace ompipe::kernels
