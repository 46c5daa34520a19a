// The matrix kernels for the neon ISA.
#include "matmul_floats_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "nbits_float_impl.h"
#include "pack_floats_impl.h"
#include "pack_nbits_impl.h"
#include "portable_floats_impl.h"
#include "portable_nbits_impl.h"
#include "portable_strip_impl.h"
#include "vec_neon.h"

namespace ompipe::kernels {

const MatMulKernels kMatMulNeon = {
    .pack_floats = pack_floats<VecNeon>,
    .pack_nbits = pack_nbits<VecNeon>,
    .quantise_rows = quantise_rows<VecNeon>,
    .prepare_floats = prepare_floats<VecNeon>,
    .floats_tile = floats_tile<VecNeon>,
    .nbits_float_tile = nbits_float_tile<VecNeon>,
    .nbits_int_tile = nbits_int_tile<VecNeon>,
    .pack_strip = pack_strip<VecNeon>,
    .multiply_strip = multiply_strip<VecNeon>,
    .write_strip = write_strip<VecNeon>,
    .floats_direct_tile = floats_direct_tile<VecNeon>,
    .quantise_spans = quantise_spans<VecNeon>,
    .nbits_direct_tile = nbits_direct_tile<VecNeon>,
};

}  // namespace ompipe::kernels
