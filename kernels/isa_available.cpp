// A file of its own, because the tests of emulated instruction sets bring another answer.
#include "ompipe/kernels/isa.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ompipe::kernels {

#if defined(__x86_64__)

// The words that these builtins test were filled when the process started, and say what the system saves as well.
bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case Isa::avx_vnni:
      return isa_available(Isa::avx2) && __builtin_cpu_supports("avxvnni");
    case Isa::avx512:
      return isa_available(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    case Isa::avx512_vnni:
      return isa_available(Isa::avx512) && __builtin_cpu_supports("avx512vnni");
    default:
      return false;
  }
}

#elif defined(__aarch64__)

bool isa_available(Isa isa) {
  if (isa == Isa::neon_dotprod) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return isa == Isa::scalar || isa == Isa::neon;
}

#else

bool isa_available(Isa isa) { return isa == Isa::scalar; }

#endif

}  // namespace ompipe::kernels
