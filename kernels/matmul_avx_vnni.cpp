// What AVX-VNNI adds to the matrix kernels of avx2: integer dot products.
#include "matmul_integer_impl.h"
#include "matmul_kernels.h"
#include "matmul_nbits_impl.h"
#include "vec_avx2.h"

namespace ompipe::kernels {
namespace {

// Four products a lane in one instruction, summed in 32 bits at once.
struct VecAvxVnni : VecAvx2 {
  static constexpr bool kDotsOfBytes = true;
  static Dots first_dot(Bytes x, const int8_t* p) { return add_dot(_mm256_setzero_si256(), x, p); }
  static Dots add_dot(Dots sum, Bytes x, const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm256_dpbusd_avx_epi32(sum, x, _mm256_set1_epi32(four));
  }
  static Ints sum_dots(Dots sum) { return sum; }
  static Ints add_bytes(Ints sum, Bytes x) { return _mm256_dpbusd_avx_epi32(sum, x, _mm256_set1_epi8(1)); }
};

}  // namespace

const MatMulKernels kMatMulAvxVnni = {
    .nbits_int_tile = nbits_int_tile<VecAvxVnni>,
    .integer_tile = integer_tile<VecAvxVnni>,
};

}  // namespace ompipe::kernels
