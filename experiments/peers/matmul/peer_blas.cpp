// OpenBLAS and BLIS by their common C interface. Both export the same names, so each is loaded by itself. Neither packs
// ahead.
#include <dlfcn.h>

#include <cstring>

#include "peer.h"

namespace ompipe::bench {
namespace {

// Of the CBLAS standard (BLAS Technical Forum, annex B).
constexpr int kRowMajor = 101, kNoTranspose = 111;
using Sgemm = void (*)(int, int, int, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                       int ldb, float beta, float* c, int ldc);

class Blas : public Peer {
 public:
  Blas(const MatMulCase& measured, const MatMulOperands& operands, const char* library, const char* set_threads)
      : m_(static_cast<int>(measured.m)),
        k_(static_cast<int>(measured.spec.k)),
        n_(static_cast<int>(measured.spec.n)),
        bytes_(operands.layout.source_bytes),
        copies_(measured.copies(bytes_)),
        b_(copies_ * bytes_),
        a_(operands.a.floats()),
        out_(measured.m * n_ * 4) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (handle == nullptr) give_up(dlerror());
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(handle, "cblas_sgemm"));
    const auto threads = reinterpret_cast<void (*)(long)>(dlsym(handle, set_threads));
    if (sgemm_ == nullptr || threads == nullptr) give_up(std::string(library) + " lacks " + set_threads);
    threads(measured.threads);
    for (int64_t i = 0; i < copies_; ++i) std::memcpy(b_.data() + i * bytes_, operands.b.data(), bytes_);
  }
  const float* run() override {
    const float* b = b_.floats() + next_++ % copies_ * (bytes_ / 4);
    sgemm_(kRowMajor, kNoTranspose, kNoTranspose, m_, n_, k_, 1, a_, k_, b, n_, 0, out_.floats(), n_);
    return out_.floats();
  }

 private:
  int m_, k_, n_;
  int64_t bytes_, copies_, next_ = 0;
  BenchMemory b_;
  const float* a_;
  BenchMemory out_;
  Sgemm sgemm_;
};

}  // namespace

std::unique_ptr<Peer> make_openblas(const MatMulCase& measured, const MatMulOperands& operands) {
  return std::make_unique<Blas>(measured, operands, "libopenblas.so.0", "openblas_set_num_threads");
}

std::unique_ptr<Peer> make_blis(const MatMulCase& measured, const MatMulOperands& operands) {
  return std::make_unique<Blas>(measured, operands, "libblis.so.4", "bli_thread_set_num_threads");
}

}  // namespace ompipe::bench
