// ONNX Runtime for the comparison: a process-wide environment with one thread pool, and sessions over chains of
// MatMulNBits nodes that are built in memory.
#pragma once

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <string>
#include <vector>

// One square weight [size, size], as com.microsoft::MatMulNBits takes it at 4 bits.
struct Weight {
  int64_t size = 0;
  int block = 32;
  std::vector<uint8_t> b, zero_points;
  std::vector<float> scales;

  // Its value at (k, n).
  double value(int64_t k, int64_t n) const;
};

// Random ones that keep a row's norm roughly as it is.
Weight make_weight(int64_t size, int block, uint32_t seed);

// Every failure ends the program with its message.
class Ort {
 public:
  // Sessions share one pool, so that none spins beside another.
  explicit Ort(int threads);
  ~Ort();
  Ort(const Ort&) = delete;

  const OrtApi& api() const { return *api_; }
  OrtEnv* environment() const { return environment_; }
  void check(OrtStatus* status) const;

 private:
  const OrtApi* api_;
  OrtEnv* environment_ = nullptr;
};

class Session {
 public:
  // For each of one or two domains a chain of its MatMulNBits, one node a weight; `library` registers operators.
  Session(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
          const std::vector<Weight>& weights, int level);
  // Why such a session can't be made; empty if it can.
  static std::string refusal(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
                             const std::vector<Weight>& weights, int level);
  ~Session();
  Session(const Session&) = delete;

  // Binds [m, size] of `a` and of each chain's output, once; they outlive the session.
  void bind(int64_t m, std::vector<float>& a, const std::vector<std::vector<float>*>& outs);
  void run();

 private:
  explicit Session(const Ort& ort) : ort_(ort) {}
  OrtStatus* make(const std::string& library, const std::string& model);

  const Ort& ort_;
  int64_t size_ = 0;
  OrtMemoryInfo* memory_ = nullptr;
  OrtSession* session_ = nullptr;
  std::vector<OrtValue*> values_;  // x, then the outputs
};
