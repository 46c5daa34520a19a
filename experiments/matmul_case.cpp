#include "matmul_case.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace ompipe::bench {
namespace {

constexpr int64_t kMostRowsBoundByReading = 4;

int64_t whole_pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

std::string MatMulCase::name(const std::string& impl) const {
  std::string name = (nbits() ? "matmul_nbits/impl:" : "gemm_f32/impl:") + impl;
  if (nbits()) {
    name += "/bits:4/block:" + std::to_string(spec.block) + "/acc:" + std::to_string(spec.accuracy_level);
  }
  return name + "/M:" + std::to_string(m) + "/K:" + std::to_string(spec.k) + "/N:" + std::to_string(spec.n) +
         "/threads:" + std::to_string(threads);
}

std::vector<MatMulCase> matmul_cases(bool smoke) {
  struct Shape {
    int64_t k, n;
  };
  const std::vector<Shape> shapes = smoke ? std::vector<Shape>{{256, 200}}
                                          : std::vector<Shape>{{896, 896}, {2048, 2048}, {4096, 4096}, {4096, 11008}};
  const std::vector<int64_t> rows = smoke ? std::vector<int64_t>{1, 32} : std::vector<int64_t>{1, 8, 32, 128, 512};
  std::vector<MatMulCase> cases;
  for (const Shape& shape : shapes) {
    for (const int64_t m : rows) {
      for (const int threads : {1, 2}) {
        // Copies that exceed the last-level cache together, where few rows don't hide the reading.
        const int64_t copies_bytes = smoke || m > 32 ? 0 : int64_t{256} << 20;
        kernels::MatMulSpec spec = {.k = shape.k, .n = shape.n};
        cases.push_back({spec, m, threads, copies_bytes});
        spec.format = kernels::WeightFormat::nbits;
        for (const int level : {4, 0}) {
          spec.accuracy_level = level;
          cases.push_back({spec, m, threads, copies_bytes});
        }
      }
    }
  }
  return cases;
}

MatMulOperands::MatMulOperands(const MatMulCase& measured)
    : layout(*kernels::make_layout(measured.spec, kernels::best_isa(), measured.tuning)),
      a(measured.m * measured.spec.k * 4),
      b(layout.source_bytes),
      scales(layout.scales_bytes / 4) {
  std::minstd_rand random(1);
  if (measured.nbits()) {
    for (int64_t i = 0; i < layout.source_bytes; ++i) b.data()[i] = static_cast<std::byte>(random());
    for (float& scale : scales) scale = static_cast<float>(random() % 1000 + 500) / 1e5f;
  } else {
    for (int64_t i = 0; i < layout.source_bytes / 4; ++i) {
      b.floats()[i] = static_cast<float>(random() % 2001) / 1000 - 1;
    }
  }
  for (int64_t i = 0; i < measured.m * measured.spec.k; ++i) {
    a.floats()[i] = static_cast<float>(i * 7919 % 2001) / 1000 - 1;
  }
}

PackedProduct::PackedProduct(const MatMulCase& measured, const MatMulOperands& operands)
    : layout_(operands.layout),
      copies_(measured.copies(layout_.packed_bytes)),
      copy_bytes_(whole_pages(layout_.packed_bytes)),
      packed_(copies_ * copy_bytes_),
      out_(measured.m * measured.spec.n * 4),
      shared_(kernels::shared_scratch_bytes(layout_, measured.m) + 1),
      args_{.layout = &layout_,
            .m = measured.m,
            .a = operands.a.floats(),
            .lda = measured.spec.k,
            .out = out_.floats(),
            .ldc = measured.spec.n,
            .shared_scratch = shared_.data()},
      call_(kernels::matmul_call(args_)),
      team_(measured.threads, call_.tile_scratch_bytes) {
  kernels::pack_range(layout_, operands.sources(), 0, layout_.source_bytes, packed_.data());
  for (int64_t i = 1; i < copies_; ++i) {
    std::memcpy(packed_.data() + i * copy_bytes_, packed_.data(), layout_.packed_bytes);
  }
}

const float* PackedProduct::run() {
  args_.packed = packed_.data() + next_++ % copies_ * copy_bytes_;
  team_.run(call_);
  return out_.floats();
}

LimitProduct::LimitProduct(const MatMulCase& measured, int64_t weight_bytes)
    : copies_(measured.m <= kMostRowsBoundByReading ? measured.copies(weight_bytes) : 1),
      bytes_(measured.m <= kMostRowsBoundByReading ? copies_ * weight_bytes : 1),
      ceiling_{Ceiling::Kind::four_stream_read, weight_bytes / 1024 * 1024, bytes_.data()},
      call_(ceiling_call(ceiling_)),
      team_(measured.threads, 0) {
  if (measured.m > kMostRowsBoundByReading) {
    ceiling_.kind = measured.integer() ? Ceiling::Kind::int8_dot : Ceiling::Kind::float_fma;
    ceiling_.amount = static_cast<int64_t>(measured.flops());
  }
}

void LimitProduct::run() {
  ceiling_.bytes = bytes_.data() + next_++ % copies_ * ceiling_.amount;
  team_.run(call_);
}

}  // namespace ompipe::bench
