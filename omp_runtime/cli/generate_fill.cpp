#include "generate_fill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ompipe/arenas/error.h"

namespace ompipe::cli {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t random_bits(uint64_t key, uint64_t index) { return mix(key + (index + 1) * kGolden); }

// Sixteen nibbles at once; a nibble of 0 becomes 8.
uint64_t without_zero_nibbles(uint64_t nibbles) {
  uint64_t any = nibbles | (nibbles >> 1);
  any |= any >> 2;
  return nibbles | ((~any & 0x1111111111111111) << 3);
}

void fill_nibbles(uint64_t key, uint64_t first_byte, std::span<std::byte> out) {
  for (size_t done = 0; done < out.size(); done += 8) {
    const uint64_t nibbles = without_zero_nibbles(random_bits(key, (first_byte + done) / 8));
    std::memcpy(out.data() + done, &nibbles, std::min<size_t>(8, out.size() - done));
  }
}

// The nearest value that float16 holds, subnormal ones too, for magnitudes up to 65504.
float to_f16_grid(float value) {
  if (std::fabs(value) < 0x1p-14f) return std::nearbyint(value * 0x1p24f) * 0x1p-24f;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0xFFF + ((bits >> 13) & 1)) & ~uint32_t(0x1FFF));
}

// Bits of a value that float16 holds exactly as zero or a normal number.
uint16_t exact_f16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  if ((bits << 1) == 0) return uint16_t(sign);
  return uint16_t(sign | (((bits & 0x7FFFFFFF) >> 13) - ((127 - 15) << 10)));
}

double unit(uint64_t bits) { return double(bits >> 40) * 0x1p-24; }

float rotary_value(const WeightSpec& weight, uint64_t index) {
  const uint64_t half = uint64_t(weight.dims[1]);
  const double exponent = double(index % half) / double(half);
  const double angle = double(index / half) / std::pow(weight.fill.high, exponent);
  return float(weight.fill.kind == FillKind::cosine ? std::cos(angle) : std::sin(angle));
}

template <class T, class Make>
void fill_each(uint64_t first_byte, std::span<std::byte> out, Make make) {
  const uint64_t first = first_byte / sizeof(T);
  for (uint64_t i = 0; i < out.size() / sizeof(T); ++i) {
    const T value = make(first + i);
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

uint64_t weight_key(uint64_t seed, std::string_view name) {
  uint64_t key = mix(seed + kGolden);
  for (const char letter : name) key = mix(key ^ uint8_t(letter));
  return key;
}

void fill_weight(const WeightSpec& weight, uint64_t key, uint64_t first_byte, std::span<std::byte> out) {
  OMPIPE_CHECK(first_byte % 8 == 0);
  const double low = weight.fill.low, width = weight.fill.high - weight.fill.low;
  const auto uniform = [&](uint64_t i) { return float(low + width * unit(random_bits(key, i))); };
  switch (weight.fill.kind) {
    case FillKind::nibbles:
      return fill_nibbles(key, first_byte, out);
    case FillKind::uniform:
      return fill_each<float>(first_byte, out, uniform);
    case FillKind::uniform_f16:
      return fill_each<float>(first_byte, out, [&](uint64_t i) { return to_f16_grid(uniform(i)); });
    case FillKind::table_f16:
      return fill_each<uint16_t>(
          first_byte, out, [&](uint64_t i) { return exact_f16_bits(std::nearbyint(uniform(i) * 1024.0f) / 1024.0f); });
    case FillKind::cosine:
    case FillKind::sine:
      return fill_each<float>(first_byte, out, [&](uint64_t i) { return rotary_value(weight, i); });
  }
}

}  // namespace ompipe::cli
