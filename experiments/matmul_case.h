// One matrix product to be measured: its shape, its operands, the kernels' run of it and the machine's limit for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench_memory.h"
#include "ceilings.h"
#include "ompipe/kernels/matmul.h"
#include "tile_team.h"

namespace ompipe::bench {

struct MatMulCase {
  kernels::MatMulSpec spec;
  int64_t m = 1;
  int threads = 1;
  int64_t copies_bytes = 0;  // of weights at least, used in turn, so that they come from memory
  kernels::Tuning tuning = kernels::tuning_of_this_cpu();

  bool integer() const { return spec.format == kernels::WeightFormat::nbits && spec.accuracy_level == 4; }
  bool nbits() const { return spec.format == kernels::WeightFormat::nbits; }
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(spec.k) * static_cast<double>(spec.n);
  }
  // How many equal copies of `bytes` bytes are used in turn.
  int64_t copies(int64_t bytes) const { return copies_bytes <= bytes ? 1 : copies_bytes / bytes; }
  // As in `gemm_f32/impl:ompipe/M:1/K:896/N:896/threads:1`.
  std::string name(const std::string& impl) const;
};

// The products that are measured: float32, and 4 bits at both levels, at every shape on one and two threads. `smoke`: a
// small shape.
std::vector<MatMulCase> matmul_cases(bool smoke);

// A in rows of K, and B as it lies in a model's file: random bytes, but small finite numbers where floats stand.
struct MatMulOperands {
  explicit MatMulOperands(const MatMulCase& measured);
  kernels::PackSources sources() const {
    return {b.data(), reinterpret_cast<const std::byte*>(scales.data()), nullptr};
  }

  kernels::PackedLayout layout;
  BenchMemory a, b;
  std::vector<float> scales;
};

// The kernels' product, weights packed once.
class PackedProduct {
 public:
  PackedProduct(const MatMulCase& measured, const MatMulOperands& operands);
  // One product, with the next copy of the weights. Returns [m, N].
  const float* run();
  int64_t weight_bytes() const { return layout_.packed_bytes; }

 private:
  kernels::PackedLayout layout_;
  int64_t copies_, copy_bytes_, next_ = 0;
  BenchMemory packed_, out_, shared_;
  kernels::MatMulArgs args_;
  kernels::TiledCall call_;
  TileTeam team_;
};

// What the machine could do at best in place of a product: few rows are bound by reading weights, many by arithmetic.
class LimitProduct {
 public:
  LimitProduct(const MatMulCase& measured, int64_t weight_bytes);
  void run();

 private:
  int64_t copies_, next_ = 0;
  BenchMemory bytes_;
  Ceiling ceiling_;
  kernels::TiledCall call_;
  TileTeam team_;
};

}  // namespace ompipe::bench
