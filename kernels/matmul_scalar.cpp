// The matrix kernels for the scalar ISA.
#include "matmul_floats_impl.h"
#include "matmul_integer_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "nbits_float_impl.h"
#include "pack_floats_impl.h"
#include "pack_nbits_impl.h"
#include "portable_floats_impl.h"
#include "portable_nbits_impl.h"
#include "portable_strip_impl.h"
#include "vec_scalar.h"

namespace ompipe::kernels {

const MatMulKernels kMatMulScalar = {
    .pack_floats = pack_floats<VecScalar>,
    .pack_nbits = pack_nbits<VecScalar>,
    .quantise_rows = quantise_rows<VecScalar>,
    .prepare_floats = prepare_floats<VecScalar>,
    .floats_tile = floats_tile<VecScalar>,
    .nbits_float_tile = nbits_float_tile<VecScalar>,
    .nbits_int_tile = nbits_int_tile<VecScalar>,
    .pack_strip = pack_strip<VecScalar>,
    .multiply_strip = multiply_strip<VecScalar>,
    .write_strip = write_strip<VecScalar>,
    .floats_direct_tile = floats_direct_tile<VecScalar>,
    .quantise_spans = quantise_spans<VecScalar>,
    .nbits_direct_tile = nbits_direct_tile<VecScalar>,
    .pack_bytes = pack_bytes<VecScalar>,
    .prepare_bytes = prepare_bytes<VecScalar>,
    .integer_tile = integer_tile<VecScalar>,
};

}  // namespace ompipe::kernels
