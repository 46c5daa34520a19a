#include "ompipe/kernels/isa.h"

namespace ompipe::kernels {

bool isa_available(Isa isa) {
  static const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return isa == Isa::scalar || avx2;
}

Isa best_isa() { return isa_available(Isa::avx2) ? Isa::avx2 : Isa::scalar; }

const char* isa_name(Isa isa) { return isa == Isa::scalar ? "scalar" : "avx2"; }

std::optional<Isa> parse_isa(std::string_view name) {
  for (Isa isa : {Isa::scalar, Isa::avx2}) {
    if (name == isa_name(isa)) return isa;
  }
  return std::nullopt;
}

}  // namespace ompipe::kernels
