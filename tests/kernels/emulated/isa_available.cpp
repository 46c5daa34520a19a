// The answer in a program whose AVX-512 and VNNI kernels are emulated: whoever has AVX2 has them all.
#include "ompipe/kernels/isa.h"

namespace ompipe::kernels {

bool isa_available(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return isa == Isa::scalar || (avx2 && isa < Isa::neon);
}

}  // namespace ompipe::kernels
