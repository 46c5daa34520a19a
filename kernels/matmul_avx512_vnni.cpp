// What AVX512-VNNI adds to the matrix kernels of avx512: integer dot products.
#include "matmul_integer_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "vec_avx512.h"

namespace ompipe::kernels {
namespace {

// Four products a lane in one instruction, summed in 32 bits at once.
struct VecAvx512Vnni : VecAvx512 {
  static constexpr bool kDotsOfBytes = true;
  static Dots first_dot(Bytes x, const int8_t* p) { return add_dot(_mm512_setzero_si512(), x, p); }
  static Dots add_dot(Dots sum, Bytes x, const int8_t* p) { return _mm512_dpbusd_epi32(sum, x, four_bytes(p)); }
  static Ints sum_dots(Dots sum) { return sum; }
  static Ints add_bytes(Ints sum, Bytes x) { return _mm512_dpbusd_epi32(sum, x, _mm512_set1_epi8(1)); }
};

}  // namespace

const MatMulKernels kMatMulAvx512Vnni = {
    .nbits_int_tile = nbits_int_tile<VecAvx512Vnni>,
    .integer_tile = integer_tile<VecAvx512Vnni>,
};

}  // namespace ompipe::kernels
