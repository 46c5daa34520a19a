// What the dot products of Armv8.2 add to the matrix kernels of neon.
#include "matmul_integer_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "vec_neon.h"

namespace ompipe::kernels {
namespace {

// Four products a lane in one instruction, summed in 32 bits at once. The weights' bytes are nibbles, so they are the
// same with a sign.
struct VecNeonDotprod : VecNeon {
  using Dots = Ints;
  static Dots first_dot(Bytes x, const int8_t* p) { return add_dot(int_broadcast(0), x, p); }
  static Dots add_dot(Dots sum, Bytes x, const int8_t* p) {
    const int8x16_t four = four_bytes(p);
    return {vdotq_s32(sum.low, vreinterpretq_s8_u8(x.low), four),
            vdotq_s32(sum.high, vreinterpretq_s8_u8(x.high), four)};
  }
  static Ints sum_dots(Dots sum) { return sum; }
  static Ints sum_dots_times_16(Dots sum) { return times_16(sum); }
};

}  // namespace

const MatMulKernels kMatMulNeonDotprod = {
    .nbits_int_tile = nbits_int_tile<VecNeonDotprod>,
    .integer_tile = integer_tile<VecNeonDotprod>,
};

}  // namespace ompipe::kernels
