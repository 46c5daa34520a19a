#include "matmul_fixture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace ompipe::kernels::test {
namespace {

constexpr size_t kGuardBytes = 128;

void append(std::vector<std::byte>& bytes, const void* value, size_t size) {
  const auto* from = static_cast<const std::byte*>(value);
  bytes.insert(bytes.end(), from, from + size);
}

void fill_floats(Weights& weights, std::mt19937& random) {
  const MatMulSpec& spec = weights.spec;
  weights.values.resize(spec.k * spec.n);
  for (int64_t i = 0; i < spec.k * spec.n; ++i) {
    float value = std::uniform_real_distribution<float>(-1, 1)(random);
    if (spec.format == WeightFormat::f32) {
      append(weights.b, &value, 4);
    } else {
      uint16_t half = random_half(random);
      if (spec.format == WeightFormat::bf16) half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      value = spec.format == WeightFormat::f16 ? half_value(half) : std::bit_cast<float>(uint32_t(half) << 16);
      append(weights.b, &half, 2);
    }
    const int64_t k = spec.trans_b ? i % spec.k : i / spec.n, n = spec.trans_b ? i / spec.k : i % spec.n;
    weights.values[k * spec.n + n] = value;
  }
}

// Element i of `bits` bits, low bits first.
int element(const std::byte* bytes, int64_t i, int bits) {
  return static_cast<int>(bytes[i * bits / 8]) >> (i * bits % 8) & ((1 << bits) - 1);
}

// Appends a scale or zero point of at most 11 significant bits, as a float or a half, and returns it.
float append_half(std::vector<std::byte>& bytes, uint16_t half, bool as_half) {
  const float value = half_value(half);
  if (as_half) {
    append(bytes, &half, 2);
  } else {
    append(bytes, &value, 4);
  }
  return value;
}

float append_scale(Weights& weights, std::mt19937& random) {
  const MatMulSpec& spec = weights.spec;
  const bool half = spec.scale_type == ScaleType::f16;
  if (half || spec.half_scales) return append_half(weights.scales, random_half(random), half);
  const float scale = std::uniform_real_distribution<float>(-0.2f, 0.2f)(random);
  append(weights.scales, &scale, 4);
  return scale;
}

// Of block `block` of column n; appended if it isn't packed.
float zero_point_of(Weights& weights, int64_t n, int64_t block, std::mt19937& random) {
  const MatMulSpec& spec = weights.spec;
  const int64_t blocks = (spec.k + spec.block - 1) / spec.block;
  switch (spec.zero_points) {
    case ZeroPoints::none:
      break;
    case ZeroPoints::packed:
      return static_cast<float>(
          element(weights.zero_points.data() + n * ((blocks * spec.bits + 7) / 8), block, spec.bits));
    case ZeroPoints::f32: {
      const float value = std::uniform_real_distribution<float>(0, static_cast<float>(1 << spec.bits))(random);
      append(weights.zero_points, &value, 4);
      return value;
    }
    case ZeroPoints::f16:
      return append_half(weights.zero_points, random_half(random), true);
  }
  return static_cast<float>(1 << (spec.bits - 1));
}

void fill_nbits(Weights& weights, std::mt19937& random) {
  const MatMulSpec& spec = weights.spec;
  const int64_t blocks = (spec.k + spec.block - 1) / spec.block, blob = spec.block * spec.bits / 8;
  weights.values.resize(spec.k * spec.n);
  weights.quants.resize(spec.k * spec.n);
  weights.block_scales.resize(blocks * spec.n);
  weights.block_zeros.resize(blocks * spec.n);
  weights.b.resize(spec.n * blocks * blob);
  for (auto& byte : weights.b) byte = static_cast<std::byte>(random());  // those past K too: they must not count
  if (spec.zero_points == ZeroPoints::packed) weights.zero_points.resize(spec.n * ((blocks * spec.bits + 7) / 8));
  for (auto& byte : weights.zero_points) byte = static_cast<std::byte>(random());
  for (int64_t n = 0; n < spec.n; ++n) {
    for (int64_t block = 0; block < blocks; ++block) {
      const float scale = append_scale(weights, random), zero_point = zero_point_of(weights, n, block, random);
      weights.block_scales[block * spec.n + n] = scale;
      weights.block_zeros[block * spec.n + n] = zero_point;
      for (int64_t k = block * spec.block; k < std::min(spec.k, (block + 1) * spec.block); ++k) {
        const int quant = element(weights.b.data() + (n * blocks + block) * blob, k % spec.block, spec.bits);
        weights.quants[k * spec.n + n] = quant;
        weights.values[k * spec.n + n] = (static_cast<float>(quant) - zero_point) * scale;
      }
    }
  }
}

}  // namespace

uint16_t random_half(std::mt19937& random) {
  const uint32_t exponent = random() % 8 == 0 ? 0 : 10 + random() % 6;
  return static_cast<uint16_t>((random() & 0x8000) | exponent << 10 | (random() & 0x3ff));
}

float half_value(uint16_t half) {
  const int exponent = (half >> 10) & 31, mantissa = half & 0x3ff;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                        : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

Buffer::Buffer(int64_t size) : size_(size), storage_(size + kAlignmentBytes + kGuardBytes, std::byte{0xff}) {
  offset_ = (kAlignmentBytes - reinterpret_cast<uintptr_t>(storage_.data()) % kAlignmentBytes) % kAlignmentBytes;
}

bool Buffer::guard_intact() const {
  return std::all_of(data() + size_, storage_.data() + storage_.size(),
                     [](std::byte b) { return b == std::byte{0xff}; });
}

bool Buffer::same_bytes(const Buffer& other) const {
  return size_ == other.size_ && std::memcmp(data(), other.data(), size_) == 0;
}

Weights make_weights(const MatMulSpec& spec, uint32_t seed) {
  std::mt19937 random(seed);
  Weights weights;
  weights.spec = spec;
  if (spec.format == WeightFormat::nbits) {
    fill_nbits(weights, random);
  } else {
    fill_floats(weights, random);
  }
  return weights;
}

int64_t cut_unit(const MatMulSpec& spec) {
  if (spec.format == WeightFormat::nbits) return spec.block * spec.bits / 8;
  return spec.format == WeightFormat::f32 ? 4 : 2;
}

Buffer pack(const PackedLayout& layout, const Weights& weights, std::vector<int64_t> cuts, bool reverse) {
  REQUIRE(layout.source_bytes == static_cast<int64_t>(weights.b.size()));
  REQUIRE(layout.scales_bytes == static_cast<int64_t>(weights.scales.size()));
  REQUIRE(layout.zero_points_bytes == static_cast<int64_t>(weights.zero_points.size()));
  cuts.push_back(0);
  cuts.push_back(layout.source_bytes);
  std::sort(cuts.begin(), cuts.end());
  Buffer packed(layout.packed_bytes);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const size_t at = reverse ? cuts.size() - 2 - i : i;
    // A copy of the range alone, at an odd address: a read outside of it is an error under asan.
    std::vector<std::byte> range(1 + cuts[at + 1] - cuts[at]);
    std::copy(weights.b.begin() + cuts[at], weights.b.begin() + cuts[at + 1], range.begin() + 1);
    const PackSources sources = {range.data() + 1, weights.scales.data(), weights.zero_points.data()};
    pack_range(layout, sources, cuts[at], cuts[at + 1], packed.data());
  }
  CHECK(packed.guard_intact());
  return packed;
}

std::vector<float> random_floats(int64_t count, std::mt19937& random) {
  std::vector<float> floats(count);
  for (float& x : floats) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return floats;
}

void run_tiles(const TiledCall& call, Order order) {
  for (int phase = 0; phase < call.phase_count; ++phase) {
    std::vector<int64_t> tiles(call.tile_counts[phase]);
    std::iota(tiles.begin(), tiles.end(), int64_t{0});
    if (order == Order::reverse) std::reverse(tiles.begin(), tiles.end());
    if (order == Order::shuffled) std::shuffle(tiles.begin(), tiles.end(), std::mt19937(7));
    for (int64_t tile : tiles) {
      Buffer scratch(static_cast<int64_t>(call.tile_scratch_bytes));
      call.run(phase, tile, scratch.data());
      CHECK(scratch.guard_intact());
    }
  }
}

void run(MatMulArgs args, Order order) {
  Buffer shared(shared_scratch_bytes(*args.layout, args.m, args.type));
  args.shared_scratch = shared.data();
  run_tiles(matmul_call(args), order);
  CHECK(shared.guard_intact());
}

float chain(const Weights& weights, const float* a, int64_t n) {
  float sum = 0;
  for (int64_t k = 0; k < weights.spec.k; ++k) sum = std::fma(a[k], weights.values[k * weights.spec.n + n], sum);
  return sum;
}

float integer_chain(const Weights& weights, const float* a, int64_t n) {
  const MatMulSpec& spec = weights.spec;
  const int64_t unit = std::min(spec.block, 32);
  float sum = 0;
  for (int64_t k = 0; k < spec.k; k += unit) {
    const int64_t end = std::min(k + unit, spec.k);
    float largest = 0;
    for (int64_t i = k; i < end; ++i) largest = std::max(largest, std::fabs(a[i]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    int dot = 0, total = 0;
    for (int64_t i = k; i < end; ++i) {
      const int q = static_cast<int>(std::nearbyint(a[i] * inverse));
      dot += q * weights.quants[i * spec.n + n];
      total += q;
    }
    const float zero_point = weights.block_zeros[k / spec.block * spec.n + n];
    const float value = std::fma(zero_point, static_cast<float>(-total), static_cast<float>(dot));
    sum = std::fma(value * (largest / 127), weights.block_scales[k / spec.block * spec.n + n], sum);
  }
  return sum;
}

std::vector<Isa> isas() {
  std::vector<Isa> available;
  for (Isa isa : kIsas) {
    if (isa_available(isa)) available.push_back(isa);
  }
  return available;
}

}  // namespace ompipe::kernels::test
