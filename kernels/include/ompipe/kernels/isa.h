// The instruction sets that kernels are compiled for, which of them this CPU has, and their names on the command line.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace ompipe::kernels {

// Every value computes the same bits, but for a NaN's sign and payload; they differ in speed only.
enum class Isa {
  scalar,        // what every CPU of the architecture has
  avx2,          // x86: AVX2, FMA and F16C together
  avx_vnni,      // avx2 and AVX-VNNI
  avx512,        // avx2 and AVX-512 F, BW, VL and DQ
  avx512_vnni,   // avx512 and AVX512-VNNI
  neon,          // aarch64: Advanced SIMD, which all of them have
  neon_dotprod,  // neon and the dot products of Armv8.2
};

// All of them; of one architecture, the faster ones come later.
inline constexpr std::array kIsas = {Isa::scalar,      Isa::avx2, Isa::avx_vnni,    Isa::avx512,
                                     Isa::avx512_vnni, Isa::neon, Isa::neon_dotprod};

// True if this CPU and its operating system run `isa`. Any thread.
bool isa_available(Isa isa);

// The fastest available one.
Isa best_isa();

// The name that --isa takes: as it stands in the enumeration.
const char* isa_name(Isa isa);

// The inverse of isa_name; nothing for an unknown name. Says nothing about this CPU: ask isa_available.
std::optional<Isa> parse_isa(std::string_view name);

}  // namespace ompipe::kernels
