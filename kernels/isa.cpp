#include "ompipe/kernels/isa.h"

namespace ompipe::kernels {

Isa best_isa() {
  Isa best = Isa::scalar;
  for (Isa isa : kIsas) {
    if (isa_available(isa)) best = isa;
  }
  return best;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx_vnni:
      return "avx_vnni";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_vnni:
      return "avx512_vnni";
    case Isa::neon:
      return "neon";
    case Isa::neon_dotprod:
      return "neon_dotprod";
  }
  return "";
}

std::optional<Isa> parse_isa(std::string_view name) {
  for (Isa isa : kIsas) {
    if (name == isa_name(isa)) return isa;
  }
  return std::nullopt;
}

}  // namespace ompipe::kernels
