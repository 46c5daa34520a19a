// The instruction sets that kernels are compiled for, which of them this CPU has, and their names on the command line.
#pragma once

#include <optional>
#include <string_view>

namespace ompipe::kernels {

// Every value computes the same bits; they differ in speed only. `avx2` stands for AVX2, FMA and F16C together.
enum class Isa { scalar, avx2 };

// True if this CPU and its operating system run `isa`. Asks the CPU once per process; any thread.
bool isa_available(Isa isa);

// The fastest available one.
Isa best_isa();

// The name that contract.md's --isa uses.
const char* isa_name(Isa isa);

// The inverse of isa_name; nothing for an unknown name. Says nothing about this CPU: ask isa_available.
std::optional<Isa> parse_isa(std::string_view name);

}  // namespace ompipe::kernels
