// Matrix products of ompipe and of other libraries, the machine's limits and the micro-kernel's own, in one run. Ask
// for one shape by --benchmark_filter and for random interleaving; run.py does both and takes the medians.
#include <benchmark/benchmark.h>

#include <cmath>
#include <optional>

#include "bench_main.h"
#include "l1_ceiling.h"
#include "peer.h"

namespace ompipe::bench {
namespace {

// Different accumulation orders; for 4-bit weights also other roundings of the activations, and of the weights where a
// library has another format (ggml's Q4_0 scales to -8).
constexpr double kFloatTolerance = 1e-5, kInt8Tolerance = 6e-2;

// The operands of the case that was asked for last, and the kernels' product of them.
struct Shared {
  explicit Shared(const MatMulCase& measured) : operands(measured) {
    PackedProduct product(measured, operands);
    const float* out = product.run();
    expected.assign(out, out + measured.m * measured.spec.n);
  }
  MatMulOperands operands;
  std::vector<float> expected;
};

const Shared& shared(const MatMulCase& measured) {
  static std::optional<Shared> made;
  static std::string of;
  if (const std::string name = measured.name(""); of != name) {
    made.reset();
    made.emplace(measured);
    of = name;
  }
  return *made;
}

double distance(const std::vector<float>& expected, const float* out) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(expected[i]) - out[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(difference / norm);
}

void count(benchmark::State& state, const MatMulCase& measured) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["ops"] = benchmark::Counter(measured.flops(), rate);
}

void run_peer(benchmark::State& state, const MatMulCase& measured, const PeerLibrary& library) {
  const Shared& data = shared(measured);
  const std::unique_ptr<Peer> peer = library.make(measured, data.operands);
  const double found = distance(data.expected, peer->run());
  if (!(found < (measured.nbits() ? kInt8Tolerance : kFloatTolerance))) {
    return state.SkipWithError(("a wrong product, off by " + std::to_string(found) + " of the norm").c_str());
  }
  for (auto _ : state) peer->run();
  count(state, measured);
  state.counters["distance"] = found;
}

void run_ompipe(benchmark::State& state, const MatMulCase& measured) {
  PackedProduct product(measured, shared(measured).operands);
  product.run();
  for (auto _ : state) product.run();
  count(state, measured);
}

void run_limit(benchmark::State& state, const MatMulCase& measured) {
  LimitProduct limit(measured, shared(measured).operands.layout.packed_bytes);
  for (auto _ : state) limit.run();
  count(state, measured);
}

void run_l1(benchmark::State& state, const MatMulCase& measured) {
  shared(measured);
  const kernels::TiledCall call = l1_call(measured);
  TileTeam team(measured.threads, 0);
  for (auto _ : state) team.run(call);
  count(state, measured);
}

void add(const MatMulCase& measured) {
  const auto registered = [&](const std::string& impl, auto... run) {
    benchmark::RegisterBenchmark(measured.name(impl).c_str(), run...)->UseRealTime()->Unit(benchmark::kMicrosecond);
  };
  registered("ompipe", run_ompipe, measured);
  registered("limit", run_limit, measured);
  if (!measured.nbits()) registered("l1", run_l1, measured);
  for (const PeerLibrary& library : peer_libraries()) {
    if (library.takes(measured)) registered(library.name, run_peer, measured, library);
  }
}

void add_all(bool smoke) {
  for (const MatMulCase& measured : matmul_cases(smoke)) add(measured);
}

}  // namespace

std::vector<PeerLibrary> peer_libraries() {
  return {
#ifdef OMPIPE_PEER_OPENBLAS
      {"openblas", false, false, make_openblas},
#endif
#ifdef OMPIPE_PEER_BLIS
      {"blis", false, false, make_blis},
#endif
#ifdef OMPIPE_PEER_ONEDNN
      {"onednn", false, false, make_onednn},
#endif
#ifdef OMPIPE_PEER_XNNPACK
      {"xnnpack", false, false, make_xnnpack},
#endif
#ifdef OMPIPE_PEER_ORT
      {"ort", true, true, make_ort},
#endif
#ifdef OMPIPE_PEER_GGML
      {"ggml", true, false, make_ggml},
#endif
  };
}

}  // namespace ompipe::bench

int main(int argc, char** argv) { return ompipe::bench::bench_main(argc, argv, ompipe::bench::add_all); }
