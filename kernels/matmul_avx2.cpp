// The matrix kernels for the avx2 ISA.
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
#include "vec_avx2.h"

namespace ompipe::kernels {

const MatMulKernels kMatMulAvx2 = {
    .pack_floats = pack_floats<VecAvx2>,
    .pack_nbits = pack_nbits<VecAvx2>,
    .quantise_rows = quantise_rows<VecAvx2>,
    .prepare_floats = prepare_floats<VecAvx2>,
    .floats_tile = floats_tile<VecAvx2>,
    .nbits_float_tile = nbits_float_tile<VecAvx2>,
    .nbits_int_tile = nbits_int_tile<VecAvx2>,
    .pack_strip = pack_strip<VecAvx2>,
    .multiply_strip = multiply_strip<VecAvx2>,
    .write_strip = write_strip<VecAvx2>,
    .floats_direct_tile = floats_direct_tile<VecAvx2>,
    .quantise_spans = quantise_spans<VecAvx2>,
    .nbits_direct_tile = nbits_direct_tile<VecAvx2>,
    .pack_bytes = pack_bytes<VecAvx2>,
    .prepare_bytes = prepare_bytes<VecAvx2>,
    .integer_tile = integer_tile<VecAvx2>,
};

}  // namespace ompipe::kernels
