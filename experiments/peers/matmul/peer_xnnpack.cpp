// XNNPACK's fully connected operator, which packs the weights when it is made.
#include <xnnpack.h>

#include <limits>

#include "peer.h"

namespace ompipe::bench {
namespace {

void check(xnn_status status, const char* what) {
  if (status != xnn_status_success) {
    give_up(std::string(what) + " gives status " + std::to_string(status));
  }
}

struct FreePool {
  void operator()(pthreadpool* pool) const { pthreadpool_destroy(pool); }
};
struct FreeOperator {
  void operator()(xnn_operator* made) const { xnn_delete_operator(made); }
};

class Xnnpack : public Peer {
 public:
  Xnnpack(const MatMulCase& measured, const MatMulOperands& operands)
      : m_(measured.m),
        a_(operands.a.floats()),
        out_(measured.m * measured.spec.n * 4),
        pool_(measured.threads > 1 ? pthreadpool_create(measured.threads) : nullptr) {
    check(xnn_initialize(nullptr), "xnn_initialize");
    const size_t k = measured.spec.k, n = measured.spec.n;
    const float infinity = std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < measured.copies(operands.layout.source_bytes); ++i) {
      xnn_operator_t made = nullptr;
      check(xnn_create_fully_connected_nc_f32(k, n, k, n, operands.b.floats(), nullptr, -infinity, infinity,
                                              XNN_FLAG_TRANSPOSE_WEIGHTS, &made),
            "xnn_create_fully_connected_nc_f32");
      products_.emplace_back(made);
    }
  }
  const float* run() override {
    xnn_operator_t product = products_[next_++ % products_.size()].get();
    check(xnn_setup_fully_connected_nc_f32(product, m_, a_, out_.floats(), pool_.get()),
          "xnn_setup_fully_connected_nc_f32");
    check(xnn_run_operator(product, pool_.get()), "xnn_run_operator");
    return out_.floats();
  }

 private:
  size_t m_;
  const float* a_;
  BenchMemory out_;
  std::unique_ptr<pthreadpool, FreePool> pool_;
  std::vector<std::unique_ptr<xnn_operator, FreeOperator>> products_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Peer> make_xnnpack(const MatMulCase& measured, const MatMulOperands& operands) {
  return std::make_unique<Xnnpack>(measured, operands);
}

}  // namespace ompipe::bench
