// oneDNN's matmul primitive, weights reordered once into the layout that it chooses.
#include <dlfcn.h>

#include <dnnl.hpp>

#include "peer.h"

namespace ompipe::bench {
namespace {

void set_threads(int threads) {
  void* handle = dlopen("libgomp.so.1", RTLD_NOW);  // what Debian's oneDNN runs on
  const auto set = handle ? reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads")) : nullptr;
  if (set == nullptr) give_up("libgomp.so.1 lacks omp_set_num_threads");
  set(threads);
}

class OneDnn : public Peer {
 public:
  OneDnn(const MatMulCase& measured, const MatMulOperands& operands)
      : out_bytes_(measured.m * measured.spec.n * 4), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    set_threads(measured.threads);
    using Desc = dnnl::memory::desc;
    using Tag = dnnl::memory::format_tag;
    const auto f32 = dnnl::memory::data_type::f32;
    const int64_t k = measured.spec.k, n = measured.spec.n;
    const Desc a({measured.m, k}, f32, Tag::ab), out({measured.m, n}, f32, Tag::ab), any({k, n}, f32, Tag::any);
    const dnnl::matmul::primitive_desc made({a, any, out}, engine_);
    product_ = dnnl::matmul(made);
    a_ = dnnl::memory(a, engine_, operands.a.data());
    out_ = dnnl::memory(out, engine_, out_bytes_.data());
    dnnl::memory source({{k, n}, f32, Tag::ab}, engine_, operands.b.data());
    const int64_t bytes = static_cast<int64_t>(made.weights_desc().get_size());
    const int64_t copies = measured.copies(bytes);
    storage_ = std::make_unique<BenchMemory>(copies * bytes);
    for (int64_t i = 0; i < copies; ++i) {
      weights_.emplace_back(made.weights_desc(), engine_, storage_->data() + i * bytes);
      dnnl::reorder(source, weights_.back()).execute(stream_, source, weights_.back());
    }
    stream_.wait();
  }
  const float* run() override {
    dnnl::memory& weights = weights_[next_++ % weights_.size()];
    product_.execute(stream_, {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, out_}});
    stream_.wait();
    return out_bytes_.floats();
  }

 private:
  BenchMemory out_bytes_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul product_;
  dnnl::memory a_, out_;
  std::unique_ptr<BenchMemory> storage_;
  std::vector<dnnl::memory> weights_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Peer> make_onednn(const MatMulCase& measured, const MatMulOperands& operands) {
  return std::make_unique<OneDnn>(measured, operands);
}

}  // namespace ompipe::bench
