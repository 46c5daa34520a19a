// ggml's CPU backend: float32 weights as they are, 4-bit ones as Q4_0 in the buffer type that repacks them. Its
// activations are 8-bit whatever accuracy is asked, so it stands at accuracy_level 4 only.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include "peer.h"

namespace ompipe::bench {
namespace {

struct Release {
  void operator()(ggml_context* x) const { ggml_free(x); }
  void operator()(ggml_backend* x) const { ggml_backend_free(x); }
  void operator()(ggml_backend_buffer* x) const { ggml_backend_buffer_free(x); }
  void operator()(ggml_gallocr* x) const { ggml_gallocr_free(x); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

// B as rows of K, one for each column.
std::vector<float> rows_of(const MatMulCase& measured, const MatMulOperands& operands) {
  const int64_t k = measured.spec.k, n = measured.spec.n, block = measured.spec.block, blocks = (k + block - 1) / block;
  std::vector<float> rows(k * n);
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t i = 0; i < k; ++i) {
      if (!measured.nbits()) {
        rows[column * k + i] = operands.b.floats()[i * n + column];
        continue;
      }
      const int64_t at = column * blocks * block + i;
      const int pair = static_cast<int>(operands.b.data()[at / 2]);
      const int quant = at % 2 == 0 ? pair & 15 : pair >> 4;
      rows[column * k + i] = static_cast<float>(quant - 8) * operands.scales[column * blocks + i / block];
    }
  }
  return rows;
}

ggml_backend_buffer_type_t weight_buffer_type(bool repacked) {
  const ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (!repacked) return ggml_backend_dev_buffer_type(device);
  const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  const ggml_backend_buffer_type_t* types = extra == nullptr ? nullptr : extra(device);
  if (types == nullptr || *types == nullptr) give_up("this ggml has no buffer type that repacks");
  return *types;
}

class Ggml : public Peer {
 public:
  Ggml(const MatMulCase& measured, const MatMulOperands& operands) {
    const int64_t k = measured.spec.k, n = measured.spec.n;
    const ggml_type type = measured.nbits() ? GGML_TYPE_Q4_0 : GGML_TYPE_F32;
    const int64_t copies = measured.copies(operands.layout.packed_bytes);
    const size_t tensors = static_cast<size_t>(copies) * 2 + 4;
    context_.reset(ggml_init({.mem_size = ggml_tensor_overhead() * tensors * 2 + ggml_graph_overhead() * (copies + 1),
                              .mem_buffer = nullptr,
                              .no_alloc = true}));
    backend_.reset(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(backend_.get(), measured.threads);

    std::vector<char> bytes(ggml_row_size(type, k) * n);
    const std::vector<float> rows = rows_of(measured, operands);
    ggml_quantize_chunk(type, rows.data(), bytes.data(), 0, n, k, nullptr);
    std::vector<ggml_tensor*> weights;
    for (int64_t i = 0; i < copies; ++i) {
      weights.push_back(ggml_new_tensor_2d(context_.get(), type, k, n));
      buffers_.emplace_back(
          ggml_backend_buft_alloc_buffer(weight_buffer_type(measured.nbits()), ggml_nbytes(weights.back()) + 4096));
      ggml_backend_tensor_alloc(buffers_.back().get(), weights.back(),
                                ggml_backend_buffer_get_base(buffers_.back().get()));
      ggml_backend_tensor_set(weights.back(), bytes.data(), 0, bytes.size());
    }
    a_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, k, measured.m);
    buffers_.emplace_back(ggml_backend_buft_alloc_buffer(weight_buffer_type(false), ggml_nbytes(a_) + 4096));
    ggml_backend_tensor_alloc(buffers_.back().get(), a_, ggml_backend_buffer_get_base(buffers_.back().get()));
    ggml_backend_tensor_set(a_, operands.a.data(), 0, ggml_nbytes(a_));
    for (ggml_tensor* weight : weights) {
      graphs_.push_back(ggml_new_graph_custom(context_.get(), 4, false));
      ggml_tensor* out = ggml_mul_mat(context_.get(), weight, a_);
      ggml_build_forward_expand(graphs_.back(), out);
      allocators_.emplace_back(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
      if (!ggml_gallocr_alloc_graph(allocators_.back().get(), graphs_.back())) {
        give_up("ggml can't allocate the graph");
      }
      outs_.push_back(out);
    }
  }
  const float* run() override {
    const size_t copy = next_++ % graphs_.size();
    if (ggml_backend_graph_compute(backend_.get(), graphs_[copy]) != GGML_STATUS_SUCCESS) {
      give_up("ggml can't compute the graph");
    }
    return static_cast<const float*>(outs_[copy]->data);
  }

 private:
  Owned<ggml_context> context_;
  Owned<ggml_backend> backend_;
  std::vector<Owned<ggml_backend_buffer>> buffers_;
  std::vector<Owned<ggml_gallocr>> allocators_;
  ggml_tensor* a_ = nullptr;
  std::vector<ggml_tensor*> outs_;
  std::vector<ggml_cgraph*> graphs_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Peer> make_ggml(const MatMulCase& measured, const MatMulOperands& operands) {
  return std::make_unique<Ggml>(measured, operands);
}

}  // namespace ompipe::bench
