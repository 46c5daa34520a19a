// Makes any part of any generated weight from the seed alone, so that weights need neither order nor memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "generate_spec.h"

namespace ompipe::cli {

// The key of one weight: every random number in it is a function of the key and the element's index.
uint64_t weight_key(uint64_t seed, std::string_view name);

// Fills `out` with the bytes of the weight that start at `first_byte` (a multiple of 8). Pure: the same bytes whatever
// the cuts. Random numbers are the outputs of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014) at the position of the element.
void fill_weight(const WeightSpec& weight, uint64_t key, uint64_t first_byte, std::span<std::byte> out);

}  // namespace ompipe::cli
