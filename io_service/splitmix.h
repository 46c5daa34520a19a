// splitmix64: one multiply-shift mix from a counter or a key to 64 random bits.
#pragma once

#include <cstdint>

namespace ompipe::io {

// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
constexpr uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace ompipe::io
