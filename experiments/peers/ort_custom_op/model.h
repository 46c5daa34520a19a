// ONNX Runtime for the comparison: a process-wide environment with one thread pool, and sessions over chains of
// MatMulNBits nodes that are built in memory.
#pragma once

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weight.h"

inline constexpr const char* kTheirs = "com.microsoft";
inline constexpr const char* kOurs = "ompipe";

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
  // For each of one or two domains a chain of its MatMulNBits, one node a weight; `library` registers operators. The
  // weights have one size and format. com.microsoft takes scales, and zero points with fractions, of the rows' type: it
  // is given the same numbers so.
  Session(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
          const std::vector<Weight>& weights);
  // Why such a session can't be made or, with one row, run; empty if it can.
  static std::string refusal(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
                             const std::vector<Weight>& weights);
  ~Session();
  Session(const Session&) = delete;

  // Binds [m, size] of `a` and of each chain's output, once; they outlive the session.
  void bind(int64_t m, const std::vector<float>& a, const std::vector<std::vector<float>*>& outs);
  void run();

 private:
  Session(const Ort& ort, const std::vector<Weight>& weights);
  OrtStatus* make(const std::string& library, const std::string& model);
  OrtStatus* try_run();

  // A bound tensor: of floats where they lie, or of halves in between.
  struct Bound {
    std::vector<float>* out;  // null for A
    std::vector<uint16_t> halves;
  };

  const Ort& ort_;
  int64_t size_ = 0;
  Element rows_;
  OrtMemoryInfo* memory_ = nullptr;
  OrtSession* session_ = nullptr;
  std::vector<OrtValue*> values_;  // x, then the outputs
  std::vector<Bound> bound_;
};
