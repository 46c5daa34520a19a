// Other libraries' matrix products behind one interface, so that one program measures them beside the kernels.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "matmul_case.h"

namespace ompipe::bench {

// A measurement without one of its variants is of no use: says why on stderr and ends the program.
[[noreturn]] inline void give_up(const std::string& reason) {
  std::fprintf(stderr, "bench_peers: %s\n", reason.c_str());
  std::exit(1);
}

// One product of a library, its weights packed or converted once if the library can do that.
class Peer {
 public:
  virtual ~Peer() = default;
  // A * B with the next copy of the weights: [m, N], valid until the next call. Called by one thread.
  virtual const float* run() = 0;
};

// A library. Where it fails, the program gives up.
struct PeerLibrary {
  const char* name;
  bool level4, level0;  // computes MatMulNBits at that accuracy_level; each computes float32
  bool takes(const MatMulCase& measured) const { return !measured.nbits() || (measured.integer() ? level4 : level0); }
  std::unique_ptr<Peer> (*make)(const MatMulCase& measured, const MatMulOperands& operands);
};

// Those that this program was built with.
std::vector<PeerLibrary> peer_libraries();

// Each library's; the file of the same name says how it is used.
std::unique_ptr<Peer> make_openblas(const MatMulCase&, const MatMulOperands&);
std::unique_ptr<Peer> make_blis(const MatMulCase&, const MatMulOperands&);
std::unique_ptr<Peer> make_onednn(const MatMulCase&, const MatMulOperands&);
std::unique_ptr<Peer> make_xnnpack(const MatMulCase&, const MatMulOperands&);
std::unique_ptr<Peer> make_ort(const MatMulCase&, const MatMulOperands&);
std::unique_ptr<Peer> make_ggml(const MatMulCase&, const MatMulOperands&);

}  // namespace ompipe::bench
