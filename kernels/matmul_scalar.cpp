// The matrix kernels for the scalar ISA.
#include "matmul_floats_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "nbits_float_impl.h"
#include "pack_floats_impl.h"
#include "pack_nbits_impl.h"
#include "vec_scalar.h"

namespace ompipe::kernels {

const MatMulKernels kMatMulScalar = {
    .pack_floats = pack_floats<VecScalar>,
    .pack_nbits = pack_nbits<VecScalar>,
    .quantise_rows = quantise_rows<VecScalar>,
    .convert_rows = convert_rows<VecScalar>,
    .floats_tile = floats_tile<VecScalar>,
    .nbits_float_tile = nbits_float_tile<VecScalar>,
    .nbits_int_tile = nbits_int_tile<VecScalar>,
};

}  // namespace ompipe::kernels
