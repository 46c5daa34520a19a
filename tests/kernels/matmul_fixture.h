// Weights of every format with their exact values, packing and running them, for the tests of the matrix kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "ompipe/kernels/matmul.h"

namespace ompipe::kernels::test {

// `size` bytes at kAlignmentBytes, filled with 0xff (NaN as floats), with a guard behind them.
class Buffer {
 public:
  explicit Buffer(int64_t size);
  std::byte* data() { return storage_.data() + offset_; }
  const std::byte* data() const { return storage_.data() + offset_; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  bool guard_intact() const;
  bool same_bytes(const Buffer& other) const;

 private:
  int64_t size_;
  std::vector<std::byte> storage_;
  size_t offset_;
};

// One operand B: its bytes as in the file, and its values.
struct Weights {
  MatMulSpec spec;
  std::vector<std::byte> b, scales, zero_points;
  std::vector<float> values;        // [K, N]: what the float kernels multiply by
  std::vector<int> quants;          // [K, N], q; nbits only
  std::vector<float> block_zeros;   // [blocks, N], zero points; nbits only
  std::vector<float> block_scales;  // [blocks, N]; nbits only
};

Weights make_weights(const MatMulSpec& spec, uint32_t seed);

// Packs all of `weights` in the ranges between `cuts` (positions in B; 0 and the end are added), last range first if
// `reverse`.
Buffer pack(const PackedLayout& layout, const Weights& weights, std::vector<int64_t> cuts = {}, bool reverse = false);

// Bytes between which B may be cut.
int64_t cut_unit(const MatMulSpec& spec);

// Halves of moderate size, zero, both signs and subnormal ones among them; and what a half is.
uint16_t random_half(std::mt19937& random);
float half_value(uint16_t half);

// Uniform in [-1, 1).
std::vector<float> random_floats(int64_t count, std::mt19937& random);

enum class Order { forward, reverse, shuffled };

// Runs every phase of a call in that order of tiles, each with poisoned scratch of exactly the stated size.
void run_tiles(const TiledCall& call, Order order);

// The same for the packed product of `args`, whose shared_scratch is set here, of exactly the stated size.
void run(MatMulArgs args, Order order = Order::forward);

// The product that the contract states for level 0 and float weights, bit for bit: one chain of fused multiply-adds.
float chain(const Weights& weights, const float* a, int64_t n);

// The same for accuracy_level 4.
float integer_chain(const Weights& weights, const float* a, int64_t n);

// The ISAs that this machine has.
std::vector<Isa> isas();

}  // namespace ompipe::kernels::test
